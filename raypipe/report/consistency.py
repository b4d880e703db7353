"""The analysis `consistency` of a finished workspace: how much of a run a reference run has."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.config.stages import Read
from raypipe.errors import InputError
from raypipe.evaluation.overlap import rankings_of
from raypipe.evaluation.run_files.runs import read_run
from raypipe.report.finished import Finished, depths_up_to, longest
from raypipe.report.section import Chart, Section, Table

CUTOFFS = (5, 10, 20, 50, 100, 200, 500, 1000)
ELSEWHERE = "a larger collection"


class Consistency(NamedTuple):
    """The consistency factor of one run."""

    mean: dict[int, float]
    """Cutoff -> its mean over the queries."""
    num_queries: int
    """Queries of both, the run and the reference."""


def consistency_factor(
    run: pa.Table, reference: pa.Table, cutoffs: Sequence[int] = CUTOFFS
) -> Consistency:
    """The share of a run's first n passages that the reference has anywhere, for each cutoff n.

    For a query q it is |D & R| / |D|, where D are the first n passages of the run, or all of them
    if there are fewer, and R are all passages of the reference, such as the official top 1,000,
    whose irrelevant passages a reranker was trained on. The mean is over the queries that both
    have. The paper's runs have n passages for every query; only there is it the same to divide the
    sums over all queries.

    Args:
        run: a run (schema.RUN_FILE), best first.
        reference: another run, for the same collection; its order does not matter.
        cutoffs: numbers n from 1.

    Raises:
        InputError: a cutoff below 1, or no query in common.

    Source: Zhan et al. 2020 (RepBERT), the consistency factor C(f, n) of Figure 2.
    """
    if not cutoffs or min(cutoffs) < 1:
        raise InputError(f"cutoffs: expected whole numbers from 1; found {list(cutoffs)}")
    known = {query: set(passages) for query, passages in rankings_of(reference).items()}
    first = {query: found for query, found in rankings_of(run).items() if query in known}
    if not first:
        raise InputError("the run and the reference have no query in common; check their ids")
    shares = dict.fromkeys(cutoffs, 0.0)
    for query, passages in first.items():
        for cutoff in shares:
            taken = passages[:cutoff]
            shares[cutoff] += sum(each in known[query] for each in taken) / len(taken)
    return Consistency({n: total / len(first) for n, total in shares.items()}, len(first))


def consistencies(
    finished: Finished, reference: str, query_set: str | None = None
) -> list[Section]:
    """`consistency` of one query set, or of each with runs of passages and a query of the file.

    Judgements are not needed.

    Raises:
        InputError: see `consistency`, an unknown query set, or no query set that fits.
    """
    chosen, file = finished.chosen(query_set), None
    if query_set is None:
        chosen = [name for name in chosen if finished.systems(name)]
    if len(chosen) > 1 and not any(reference in finished.systems(name) for name in chosen):
        file = read_run(Path(reference))
        known = set(pc.unique(file["query_id"]).to_pylist())
        fitting = [name for name in chosen if not known.isdisjoint(finished.query_texts(name))]
        if not fitting:
            raise InputError(
                f"--reference {reference}: no query of {' or '.join(chosen)} is in it; check "
                "their ids"
            )
        chosen = fitting
    return [consistency(finished, each, reference, file=file) for each in chosen]


def consistency(
    finished: Finished, query_set: str, reference: str, *, file: pa.Table | None = None
) -> Section:
    """The consistency factor of each first stage with another run, up to its longest list.

    Only runs over the reference's own collection are compared: a passage that the reference could
    not find would count as one that it did not choose. The others are named.

    Args:
        finished: the workspace.
        query_set: one of its query sets.
        reference: one of the recipe's systems, or a run file. A file that a stage reads ranks what
            that stage says; another one with passages that are not in the collection ranks a larger
            one.
        file: the run in that file (schema.RUN_FILE), if it was read before.

    Source: RepBERT (Zhan et al. 2020), Figure 2.

    Raises:
        InputError: no run, a run that shares no query with a first stage, or no first stage over
            the reference's collection.
    """
    given, where, own = _given(finished, query_set, reference, file)
    names = [name for name in finished.first_stages(query_set) if name != own]
    alike = [name for name in names if _of(finished, name, where)]
    apart = [name for name in names if name not in alike]
    if not alike:
        raise InputError(
            f"--reference {reference}: it ranks {where or 'this collection'}, and no other first "
            f"stage of {query_set} does ({', '.join(apart) or 'there is none'}): a passage that "
            "the reference could not find would count as one that it did not choose; give a run "
            "over the same collection, and name a larger one with larger_collection in the recipe"
        )
    found, queries = {}, {}
    for name in alike:
        run = finished.run(name, query_set)
        if longest(run):
            cutoffs = depths_up_to(longest(run), CUTOFFS)
            told = consistency_factor(finished.named(run, query_set), given, cutoffs)
            found[name], queries[name] = told.mean, told.num_queries
    depths = sorted({depth for values in found.values() for depth in values})
    rows = [[n, queries[n], *(values.get(d) for d in depths)] for n, values in found.items()]
    title = f"Share of the first passages that {Path(reference).name} has"
    table = Table(title, ["first stage", "queries", *map(str, depths)], rows)
    lines = {name: [*values.items()] for name, values in found.items()}
    chart = Chart("Consistency by depth", "depth", "consistency", lines, log_x=True)
    notes = _notes(finished, query_set, where, alike, apart)
    return Section("consistency", query_set, [table], [chart], notes)


def _notes(
    finished: Finished,
    query_set: str,
    where: str | None,
    alike: Sequence[str],
    apart: Sequence[str],
) -> list[str]:
    notes = ["the reference counts whole, in any order; every run counts up to its longest list"]
    if where is not None:
        notes.append(f"all of these runs, and the reference, rank {where}, not this collection")
        notes += finished.left_out(query_set, alike)
    if apart:
        notes.append(
            f"left out, since they rank another collection than the reference: {', '.join(apart)}"
        )
    return notes


def _given(
    finished: Finished, query_set: str, reference: str, file: pa.Table | None
) -> tuple[pa.Table, str | None, str | None]:
    """The reference, schema.RUN_FILE, the larger collection that it ranks, and its system."""
    if reference in finished.systems(query_set):
        run = finished.named(finished.run(reference, query_set), query_set)
        return run, finished.larger_collection(reference), reference
    path = Path(reference)
    given = read_run(path) if file is None else file
    for name in finished.first_stages(query_set):
        stage = finished.recipe.stages[name]
        if isinstance(stage, Read) and Path(stage.runs[query_set]).resolve() == path.resolve():
            return given, finished.larger_collection(name), name
    known = finished.ranked().have(pc.unique(given["passage_id"]).to_pylist())
    return given, None if known else ELSEWHERE, None


def _of(finished: Finished, name: str, where: str | None) -> bool:
    """Whether a run ranks the collection `where`; any larger one where its name is not known."""
    own = finished.larger_collection(name)
    return own is not None if where == ELSEWHERE else own == where
