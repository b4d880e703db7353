"""`raypipe pipeline` as the driver of a Ray job: every stage of a recipe, or what is missing of it.

    export RAY_AUTH_MODE=token
    ray job submit --address http://127.0.0.1:8265 --working-dir . \
        --submission-id reindex-2026-11-21 -- \
        python jobs/pipeline.py RECIPE --out /shared/work

Arguments and exit codes are the verb's own. The job runs on the cluster that takes it, which Ray
names in RAY_ADDRESS. `--out` must be absolute: Ray deletes the copy of the working directory that
the job runs in. A job dies with its cluster and Ray never tries it again; submit it again and it
resumes. `raypipe status /shared/work` exits with its code.
"""

import sys
from pathlib import Path


def main() -> None:
    """Run the verb that this file is named after, on the cluster of the job."""
    # Python puts this folder first, where a file named after a verb hides Python's own module.
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]
    from raypipe.cli.job import run_job

    run_job(Path(__file__).stem, sys.argv[1:])


HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    main()
