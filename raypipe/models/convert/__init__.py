"""Checkpoints converted into model folders."""
