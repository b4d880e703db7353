"""The command line: verbs, exit codes, results on stdout, everything else on stderr."""

from raypipe.cli.main import main

__all__ = ["main"]
