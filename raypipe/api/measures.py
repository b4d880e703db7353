"""Measures and compares runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

from raypipe.api.inputs import Qrels, Run, is_one_run, named_runs, qrels_of, run_of
from raypipe.errors import InputError
from raypipe.evaluation.paired import SEED
from raypipe.vocabulary import MEASURES

if TYPE_CHECKING:
    from raypipe.evaluation.compare import Compared
    from raypipe.evaluation.measures import Measured

Measures = str | Sequence[str]


@overload
def evaluate(
    run: Mapping[str, Mapping[str, float]], qrels: Qrels, measures: Measures = MEASURES
) -> "Measured": ...
@overload
def evaluate(
    run: Mapping[str, Run], qrels: Qrels, measures: Measures = MEASURES
) -> "dict[str, Measured]": ...
@overload
def evaluate(run: Run, qrels: Qrels, measures: Measures = MEASURES) -> "Measured": ...
def evaluate(
    run: Run | Mapping[str, Run], qrels: Qrels, measures: Measures = MEASURES
) -> "Measured | dict[str, Measured]":
    """The run's measures: `mean` by measure, and `per_query` by measure and query id.

    Means are over the queries of the qrels; one that the run lacks counts 0. A dictionary name ->
    run gives a dictionary name -> measures.

    Args:
        run: a table, a dictionary query id -> passage id -> score, a path; or several by name.
        qrels: a table, a dictionary query id -> passage id -> grade, or a path.
        measures: in the notation of ir_measures, as a list or as words in one text: "nDCG@10
            RR(rel=2)@10".

    Raises:
        InputError: an unknown measure, bad runs or qrels, or a run without any judged query.
    """
    from raypipe.evaluation.measures import evaluate as measured
    from raypipe.evaluation.measures import evaluate_file

    judged, names = qrels_of(qrels), _names(measures)
    if isinstance(run, str | Path):
        return evaluate_file(Path(run), judged, names)
    if isinstance(run, Mapping) and not is_one_run(run):
        return {name: measured(each, judged, names) for name, each in named_runs(run).items()}
    return measured(run_of(run), judged, names)


def compare(
    runs: Mapping[str, Run],
    qrels: Qrels,
    measures: Measures = MEASURES,
    *,
    baseline: str | None = None,
    seed: int = SEED,
) -> "Compared":
    """Every run compared with the baseline, in `rows`, one per measure and run.

    The numbers are those of `raypipe compare`. A row has the mean and n, the difference with its
    95% interval, wins, ties and losses, p of the paired t test and of the randomisation test, the
    latter corrected by Holm, and the share of unjudged passages. `per_query` has the underlying
    values, `ties` each run's score ties and its measures under every order of them: of a file in
    its workspace (`DIR/runs/SET/SYSTEM.trec`) the ties of the true scores, as the command has them.

    Args:
        runs: name -> run, two or more.
        qrels: as in `evaluate`, like `measures`.
        measures: measures that have a mean; counts are refused.
        baseline: the name of one of the runs; by default the first.
        seed: of the bootstrap and the randomisation test.

    Raises:
        InputError: fewer than two runs, no such baseline, or an error of `evaluate`.
    """
    if is_one_run(runs) or len(runs) < 2:
        raise InputError("runs: found one; expected two or more as a dictionary name -> run")
    if not all(isinstance(name, str) for name in runs):
        raise InputError(f"runs: expected names that are texts; found {list(runs)!r}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed: expected a whole number from 0; found {seed!r}")
    base = next(iter(runs)) if baseline is None else baseline
    if base not in runs:
        named = ", ".join(map(str, runs))
        raise InputError(f"baseline: expected one of the runs, {named}; found {base!r}")
    from raypipe.driver.verbs.true_scores import true_ties
    from raypipe.evaluation.compare import compare as compared

    tables, judged, names = named_runs(runs), qrels_of(qrels), _names(measures)
    found = compared(tables, judged, names, baseline=base, seed=seed)
    # A TREC file shows which ties were lowered, and its workspace has the true scores; its table no
    # longer does.
    sources = {
        name: Path(run) if isinstance(run, str | Path) else tables[str(name)]
        for name, run in runs.items()
    }
    ties = {str(name): true_ties(each, judged, names) for name, each in sources.items()}
    return replace(found, ties=ties)


def _names(measures: Measures) -> list[str]:
    if isinstance(measures, str):
        measures = measures.replace(",", " ").split()
    names = list(measures) if isinstance(measures, Iterable) else [measures]
    if not all(isinstance(name, str) for name in names):
        raise InputError(
            f"measures: expected a list such as ['nDCG@10', 'AP'], or a text; found {measures!r}"
        )
    return list(dict.fromkeys(names))
