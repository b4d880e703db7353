"""The Python API: what `import raypipe` gives. Torch, faiss and Java where a call needs them."""
