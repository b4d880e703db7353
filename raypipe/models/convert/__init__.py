"""Converts checkpoints into model folders."""
