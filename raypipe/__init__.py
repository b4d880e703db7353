"""Distributed batch indexing and scoring for passage and document ranking."""

__version__ = "0.1.0"
