"""Runs written and measured; table, summary, progress."""
