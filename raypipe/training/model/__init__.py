"""The model in training: starting tensors, low-rank updates, a worker's own."""
