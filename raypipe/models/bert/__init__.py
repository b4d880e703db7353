"""The BERT family: tensor names, forward, heads."""
