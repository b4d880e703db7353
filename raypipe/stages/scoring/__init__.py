"""Stages that score candidates and turn scores into runs."""
