"""A forward pass of one fixed shape, as GPUs want it; it runs on every device."""
