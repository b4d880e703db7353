"""Nightly re-indexing: what changed, whether it may become current, and how it does."""
