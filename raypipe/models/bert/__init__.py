"""The BERT family: files, weights, forward pass, head and layout."""

from raypipe.models.bert.family import FAMILY

__all__ = ["FAMILY"]
