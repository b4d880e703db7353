"""Lucene, through Anserini's classes."""
