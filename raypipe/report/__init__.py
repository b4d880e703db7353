"""Reports on finished workspaces: one page, the analyses behind it, and the papers' tables."""
