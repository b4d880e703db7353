"""The builtin collection: Python's own documentation."""
