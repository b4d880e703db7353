"""Approximate inner-product search by faiss's indexes."""
