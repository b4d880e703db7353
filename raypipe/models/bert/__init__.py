"""The BERT family: files, weights, forward pass, head and layout."""
