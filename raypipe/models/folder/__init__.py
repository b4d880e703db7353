"""Model folders: their content, settings, hashes and loading."""
