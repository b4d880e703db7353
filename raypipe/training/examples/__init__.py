"""Training examples: drawn, guarded, stored, sampled."""
