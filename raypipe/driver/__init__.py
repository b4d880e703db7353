"""The driver: runs the stages of a recipe, publishes, evaluates and summarises."""
