"""The payloads of shards: tables, vectors and word pieces."""
