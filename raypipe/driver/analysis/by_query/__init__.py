"""Analyses that name queries: how each changed, and what it found in every system."""
