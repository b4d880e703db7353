"""A recipe as stores, each brought to completion."""
