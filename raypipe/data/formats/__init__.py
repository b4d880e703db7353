"""Formats of collections: one file each, and the table of their names."""
