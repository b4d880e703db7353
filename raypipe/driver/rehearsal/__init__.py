"""A rehearsal of MS MARCO at its full size: made-up passages, random models, every stage."""
