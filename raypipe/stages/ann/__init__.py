"""The stages of approximate search: indexes of embeddings, the search, and its recall."""
