"""Documents and their passages: splitting, the map between them, and runs of documents."""
