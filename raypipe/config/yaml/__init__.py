"""YAML with the place of every value: reading, variables, overrides, writing back."""
