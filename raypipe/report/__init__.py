"""What finished workspaces say: one page, the analyses behind it, and the papers' tables."""
