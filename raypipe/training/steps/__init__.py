"""One step: batch, loss, gradient, update."""
