"""The built-in collection: Python's own documentation."""
