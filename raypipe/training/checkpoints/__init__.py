"""Checkpoints: stored, measured on dev sets, chosen, exported."""
