"""How others open a trained model: sentence-transformers' files, and a card."""
