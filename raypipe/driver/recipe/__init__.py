"""A recipe as stores, each computed to completion."""
