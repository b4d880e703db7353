"""The cost of a recipe, before it is run: tokens, inferences, disk and time."""
