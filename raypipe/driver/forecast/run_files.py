"""The bytes of the run files that an invocation writes when its stages are done."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from raypipe import schema
from raypipe.driver.forecast.arithmetic import Arithmetic
from raypipe.driver.forecast.records import ID_BYTES, mean_bytes
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.evaluation.exports import MSMARCO_DEPTH

SCORE_BYTES = 11
"""Nine digits with a point, and often a sign or a zero before it."""
PACKED = 0.35
"""The share of a run's bytes that gzip leaves: 0.31 to 0.37 of runs with random scores."""


def run_files(
    basis: Basis, systems: Mapping[str, Sequence[System]], arithmetic: Arithmetic, folder: Path
) -> dict[str, float]:
    """Bytes by name in the workspace's folder; of a run that is stored, its file's if it is there.

    Scores are taken for numbers of nine digits, ids for as long as those of a sample.
    """
    found: dict[str, float] = {}
    for query_set, of_set in systems.items():
        query_bytes = mean_bytes(basis.queries(query_set).table(schema.QUERIES)["query_id"])
        for system in of_set:
            for ending in basis.recipe.runs.endings if system.produces == "run" else ():
                name = f"runs/{query_set}/{system.name}.{ending}"
                if arithmetic.has(system.stored) and (folder / name).is_file():
                    found[name] = float((folder / name).stat().st_size)
                    continue
                run = arithmetic.of(system.stored).lines
                ranked = arithmetic.of(basis.ranked(system.unit)).sample
                assert run is not None  # as every run has
                id_bytes = ID_BYTES if ranked is None else ranked.id_bytes
                lines, others = run, len(f" Q0    {system.name}\n") + SCORE_BYTES
                if ending.startswith("tsv"):
                    lines, others = np.minimum(lines, MSMARCO_DEPTH), len("\t\t\n")
                digits = sum(np.maximum(lines - 10**place + 1, 0.0) for place in range(7))
                of_line = query_bytes + id_bytes + others
                num_bytes = float((lines * of_line + digits).sum())
                found[name] = num_bytes * (PACKED if ending.endswith(".gz") else 1.0)
    return found
