"""Models of other architectures, computed by transformers' own forward pass.

The rows of a batch are of one length, without padding, and equal transformers' for one row to
rounding. Unlike the packed families, a row's last bits may depend on the rows beside it, and the
numerics class says so.
"""
