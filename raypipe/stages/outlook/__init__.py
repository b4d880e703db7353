"""What a stage expects of its store before it is computed."""
