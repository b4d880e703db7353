"""What stays open between calls: an index, a reranker, a Ray."""
