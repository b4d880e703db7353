"""The driver: a recipe as a list of stages; run, publish, evaluate, summarise."""
