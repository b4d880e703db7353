"""How far a query set's runs have moved between two generations, and the limits on it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.overlap import overlap, rank_biased_overlap, rankings_of
from raypipe.stages.run_tables import with_ids
from raypipe.storage.generations import Generation
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.records import Json
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

CUTOFFS = (10, 100)
PERSISTENCE = 0.9
SHOWN = 10


@dataclass(frozen=True, slots=True)
class DriftLimit:
    """A limit on the drift: `overlap@10=0.8`, `rbo=0.7` or a measure's fall, `nDCG@10=0.02`."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.value}"

    def applies(self, drift: "Drift") -> bool:
        """Whether the drift has what is limited."""
        return self.name in drift.means or self.name in drift.measures

    def problem(self, drift: "Drift") -> str | None:
        """A line about the drift beyond the limit; None if the drift is within it."""
        mean = drift.means.get(self.name)
        if mean is not None:
            return f"{self.name} {mean:.4f} < {self.value}" if mean < self.value else None
        if self.name not in drift.measures:
            return None
        before, now = drift.measures[self.name]
        fall = before - now
        return f"{self.name} fell by {fall:.4f} > {self.value}" if fall > self.value else None


@dataclass(frozen=True, slots=True)
class Drift:
    """One system's runs of a query set: the older and the newer one."""

    means: Mapping[str, float]
    """overlap@10, overlap@100 and rbo, averaged over the queries of either run; 1 is no drift."""
    measures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Before and now: the recipe's measures, the same over judged passages alone (`judged
    nDCG@10`), and the share of judged passages (`Judged@10`)."""
    gained: int = 0
    lost: int = 0
    """Passages in the first 10 of a query that were not there, and that no longer are."""
    moved: tuple[tuple[str, float], ...] = ()
    """The queries that moved most, by their rank-biased overlap, ascending."""
    queries: int = 0
    """How many were compared."""

    def to_json(self) -> dict[str, Json]:
        """The fields, pairs as lists."""
        body = asdict(self)
        measures = {name: list(pair) for name, pair in self.measures.items()}
        return {**body, "measures": measures, "moved": [list(pair) for pair in self.moved]}


def drift(
    older: pa.Table,
    newer: pa.Table,
    qrels: pa.Table | None = None,
    measures: Sequence[str] = (),
    *,
    num_queries: int = 0,
) -> Drift:
    """The drift between two runs (schema.RUN_FILE) of the same queries, by original ids.

    Without a judgement there are no measures.
    """
    before, now = rankings_of(older), rankings_of(newer)
    queries = sorted(before.keys() | now.keys())
    pairs = {query: (before.get(query, []), now.get(query, [])) for query in queries}
    rbo = {q: rank_biased_overlap(*pair, p=PERSISTENCE) for q, pair in pairs.items()}
    means = {
        f"overlap@{k}": _mean([overlap(*pair, cutoff=k) for pair in pairs.values()])
        for k in CUTOFFS
    }
    tops = [tuple(set(ranking[: CUTOFFS[0]]) for ranking in pair) for pair in pairs.values()]
    return Drift(
        means={**means, "rbo": _mean(list(rbo.values()))},
        measures=_measured(older, newer, qrels, measures) if qrels else {},
        gained=sum(len(new - old) for old, new in tops),
        lost=sum(len(old - new) for old, new in tops),
        moved=tuple(sorted(rbo.items(), key=lambda pair: (pair[1], pair[0]))[:SHOWN]),
        queries=num_queries,
    )


def limits_of(texts: Sequence[str], measures: Sequence[str]) -> list[DriftLimit]:
    """The limits in NAME=VALUE; NAME is overlap@10, overlap@100, rbo or a measure of the recipe.

    Raises:
        InputError: every text that is not one.
    """
    known = [*(f"overlap@{k}" for k in CUTOFFS), "rbo", *measures]
    limits, problems = [], []
    for text in texts:
        name, _, value = text.rpartition("=")
        number = re.fullmatch(r"\d+(\.\d*)?|\.\d+", value)
        if name not in known or number is None or float(value) > 1:
            problems.append(
                f"--max-drift {text!r}: expected NAME=VALUE with a value from 0 to 1 and one of "
                f"the names {', '.join(known)}"
            )
        else:
            limits.append(DriftLimit(name, float(value)))
    if problems:
        raise InputError(problems)
    return limits


def _measured(
    older: pa.Table, newer: pa.Table, qrels: pa.Table, measures: Sequence[str]
) -> dict[str, tuple[float, float]]:
    names = [*measures, f"Judged@{CUTOFFS[0]}"]
    whole = [_means(run, qrels, names) for run in (older, newer)]
    judged = [_means(_judged(run, qrels), qrels, measures) for run in (older, newer)]
    pairs = {name: (whole[0][name], whole[1][name]) for name in names}
    return pairs | {f"judged {name}": (judged[0][name], judged[1][name]) for name in measures}


def _means(run: pa.Table, qrels: pa.Table, measures: Sequence[str]) -> Mapping[str, float]:
    """The means; 0 for a run without any judged query."""
    if not set(run["query_id"].to_pylist()) & set(qrels["query_id"].to_pylist()):
        return dict.fromkeys(measures, 0.0)
    return evaluate(run, qrels, measures, warn=False).mean


def _judged(run: pa.Table, qrels: pa.Table) -> pa.Table:
    """The run's lines with judged passages, at their places among those."""
    columns = ("query_id", "passage_id")
    known = set(zip(*(qrels[name].to_pylist() for name in columns), strict=True))
    lines = zip(*(run[name].to_pylist() for name in columns), strict=True)
    kept = [place for place, line in enumerate(lines) if line in known]
    table, seen, ranks = run.take(pa.array(kept, pa.int64())), dict[str, int](), []
    for query in table["query_id"].to_pylist():
        seen[query] = seen.get(query, 0) + 1
        ranks.append(seen[query])
    return table.set_column(
        table.schema.get_field_index("rank"),
        "rank",
        pa.array(ranks, table.schema.field("rank").type),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The older generation's run, over the queries that both generations have."""

    lines: pa.Table
    """schema.RUN_FILE, of these queries."""
    queries: frozenset[str]
    """The ids of the queries that have the same id and text in both."""


def counterpart(storage: Storage, base: Generation, run: Stored, queries: Stored) -> Counterpart:
    """The base's run of the same store's name: of the same stage and query set.

    Raises:
        LookupError: there is none that can be compared; its message says why.
    """
    name = run.manifest.store
    if name not in base.stores:
        raise LookupError(f"it names no run {name}")
    place = f"{name}/{base.stores[name]}"
    spec = find_spec(storage, *place.split("/"))
    if spec is not None and spec.produces != "run":
        raise LookupError(f"its {name} is no run")
    origins = () if spec is None else (spec.origins["queries"], spec.origins["collection"])
    stores = []
    for each in (place, *origins):
        manifest = read_manifest(storage, *each.split("/"))
        if manifest is None:
            raise LookupError(f"its store {each.partition('/')[0]} was deleted")
        stores.append(Stored(storage, manifest))
    if not origins:
        raise LookupError(f"the spec.json of its store {name} was deleted")
    older, older_queries, collection = stores
    both = frozenset(query for query, _ in _texts(queries).items() & _texts(older_queries).items())
    if not both:
        raise LookupError("no query of it has the same id and text")
    return Counterpart(of_queries(older, older_queries, collection, both), both)


def of_queries(run: Stored, queries: Stored, ranked: Stored, ids: frozenset[str]) -> pa.Table:
    """The lines of these queries of a run, by original ids (schema.RUN_FILE)."""
    lines = with_ids(run.whole_table(schema.RUN), queries.table(schema.QUERIES), ranked)
    return lines.filter(pc.is_in(lines["query_id"], pa.array(sorted(ids), pa.string())))


def _texts(queries: Stored) -> Mapping[str, str]:
    table = queries.table(schema.QUERIES)
    return dict(zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True))
