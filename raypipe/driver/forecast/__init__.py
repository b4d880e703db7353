"""What a recipe will take, before it is run: tokens, inferences, disk and time."""
