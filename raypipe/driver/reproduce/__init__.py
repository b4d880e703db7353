"""Reproducing published tables: what is wanted, what is run, what is measured."""
