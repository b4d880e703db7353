"""From the hidden states of an input's tokens to its embedding."""
