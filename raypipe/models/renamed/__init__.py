"""Families with BERT's layers under other names: RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT."""

from raypipe.models.renamed.distilbert import DISTILBERT
from raypipe.models.renamed.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA

__all__ = ["CAMEMBERT", "DISTILBERT", "ROBERTA", "XLM_ROBERTA"]
