"""Rows of an older store that a new one can take: found by their content, never by number."""
