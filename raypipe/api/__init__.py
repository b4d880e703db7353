"""The Python API of `import raypipe`. Torch, faiss and Java are loaded when a call needs them."""
