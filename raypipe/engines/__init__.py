"""Search engines over arrays and folders; no stores, no stages."""
