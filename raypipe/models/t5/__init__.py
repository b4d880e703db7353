"""Rerankers of T5's architecture, which read a prompt and answer with a word (monoT5, duoT5).

transformers computes them: the encoder over the prompt, and one step of the decoder, whose logits
of the answers are the model's units. The rows of a batch are of one length, without padding.
"""
