"""The analysis of trade-offs: its cells, what they cost, filling them, choosing among them."""
