"""Pre-training: stretches of text, masked words, next sentences."""
