"""Proves that raypipe computes what a model's own library does, before the model's first row."""
