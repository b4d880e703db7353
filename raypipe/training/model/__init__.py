"""The model in training: starting tensors, low-rank updates, and a worker's copy."""
