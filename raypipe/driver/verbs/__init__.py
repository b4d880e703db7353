"""Verbs of one stage, as recipes or over files."""
