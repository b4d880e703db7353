"""Files as lines and records, compressed or not."""
