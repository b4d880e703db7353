"""What a caller hands in, in any of its forms, checked and made one table."""
