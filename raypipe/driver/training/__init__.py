"""Runs a training to completion."""
