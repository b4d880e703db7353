"""Families with BERT's layers under other names: RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT."""
