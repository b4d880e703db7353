"""The command line: results on stdout, everything else on stderr, exit codes."""

from raypipe.cli.main import main

__all__ = ["main"]
