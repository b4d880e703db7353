"""Exact inner-product search."""
