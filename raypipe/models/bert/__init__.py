"""The BERT family: files, weights, forward, head and layout."""

from raypipe.models.bert.family import FAMILY

__all__ = ["FAMILY"]
