"""Commands that run one stage, by a recipe or over files."""
