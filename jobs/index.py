"""`raypipe index` as the driver of a Ray job; docs/cluster.md says how to submit it."""

import os
import sys

if __name__ == "__main__":
    # In the place of this folder, whose tokenize.py hides Python's own: the one that has raypipe.
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[: not sys.flags.safe_path] = [above]
    from raypipe.isolation import leave_folder

    leave_folder(sys.path.pop(0), os.getcwd())
    from raypipe.cli.job import run_job

    run_job("index", sys.argv[1:])
