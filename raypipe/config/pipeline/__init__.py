"""The recipe of a pipeline: its kinds of stages, their rules, loading."""
