"""Reads TREC CAR's files: paragraphs, outlines and pages, in CBOR."""
