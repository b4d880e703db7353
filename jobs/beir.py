"""`raypipe beir` as the driver of a Ray job; docs/cluster.md says how to submit it."""

import sys

if __name__ == "__main__":
    sys.flags.safe_path or sys.path.pop(0)  # this folder: its tokenize.py hides Python's own
    from raypipe.cli.job import run_job

    run_job("beir", sys.argv[1:])
