"""A training brought to completion."""
