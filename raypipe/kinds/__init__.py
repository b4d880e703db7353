"""The kinds of stages: of each its keys, its rules, and the stores that it makes."""
