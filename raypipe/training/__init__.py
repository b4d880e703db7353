"""Training of encoders and rerankers; knows nothing of Ray."""
