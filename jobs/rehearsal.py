"""Every stage of the MS MARCO recipes over 8,841,823 made-up passages, with random models.

    python jobs/rehearsal.py --out DIR --like COLLECTION --queries QUERIES [--until STAGE]

docs/benchmarks.md says what it took. Run it again to go on after --until, or after a kill.
"""

import sys

if __name__ == "__main__":
    sys.flags.safe_path or sys.path.pop(0)  # this folder: its tokenize.py hides Python's own
    from raypipe.driver.rehearsal.command import main

    sys.exit(main(sys.argv[1:]))
