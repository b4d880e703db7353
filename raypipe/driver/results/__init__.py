"""The results table of a finished pipeline, in the formats that people paste and programs read."""
