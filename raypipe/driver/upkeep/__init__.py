"""Commands for finished workspaces (status, verify, gc, export), and `doctor`."""
