"""The ModernBERT family: files, weights, forward pass and head."""
