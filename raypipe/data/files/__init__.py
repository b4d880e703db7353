"""Reads files as lines and records, compressed or not."""
