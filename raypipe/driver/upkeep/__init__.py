"""Finished workspaces: status, verify, gc, export; the doctor."""
