"""The recipe of a training."""
