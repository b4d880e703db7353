"""Leases: what the storage says of them, and holding one."""
