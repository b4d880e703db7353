"""The page of a workspace, and of two side by side."""
