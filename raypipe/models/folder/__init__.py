"""A model folder: what it holds, its conventions, opened and hashed."""
