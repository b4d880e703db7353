"""What a shard's payload holds: tables, vectors, word pieces."""
