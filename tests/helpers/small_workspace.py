"""Passages of the small workspace."""

IDS = ["p0", "p1", "p2", "p3", "p4"]


TEXTS = ["the zebra", "a lease", "of shards", "rank a query", "run"]
