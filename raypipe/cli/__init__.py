"""The command line: results on stdout, everything else on stderr, and exit codes."""

from raypipe.cli.main import main

__all__ = ["main"]
