"""Training of encoders and rerankers, independent of Ray."""
