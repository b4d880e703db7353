"""Crash points: every call that changes a folder is counted, and the n-th of them fails."""
