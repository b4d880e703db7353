"""Sweeps: one recipe with several values of some keys, over shared stores."""
