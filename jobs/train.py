"""`raypipe train` as the driver of a Ray job: an encoder, a mono or a duo model fine-tuned.

    export RAY_AUTH_MODE=token
    ray job submit --address http://127.0.0.1:8265 --working-dir . -- \
        python jobs/train.py /shared/recipe.yaml --out /shared/trained resources.workers=8

Arguments and exit codes are the verb's own; jobs/pipeline.py tells what a job must know.
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
