"""What lies beside the weights: layers behind pooling, and the ends of a tokenizer's inputs."""
