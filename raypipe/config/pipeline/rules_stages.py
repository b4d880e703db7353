"""The rules of stages: their inputs are earlier stages of the right kind, their settings fit."""

from collections.abc import Iterable, Iterator

from raypipe.config.pipeline.draft import Draft
from raypipe.config.pipeline.rules_reranking import aggregate_problems, score_problems
from raypipe.config.pipeline.stage_kinds import (
    PAIRS_KIND,
    RUN_KINDS,
    STAGE_KINDS,
    Aggregate,
    Bm25,
    Fuse,
    Read,
    Score,
    Search,
    Tune,
)
from raypipe.config.yaml.document import Key, Problem
from raypipe.config.yaml.words import did_you_mean, listed

_INDEX_KINDS = ("index", "encode")


def stage_problems(draft: Draft) -> list[Problem]:
    """Every broken rule, in the order of the recipe; names are followed in unsound stages too."""
    problems: list[Problem] = []
    for name, kind in draft.kinds.items():
        problems += _references(name, kind, draft)
        match draft.stages[name]:
            case Search() as stage:
                problems += _search(name, stage, draft)
            case Fuse() as stage:
                problems += _fuse(name, stage)
            case Score() as stage:
                problems += score_problems(name, stage)
            case Aggregate() as stage:
                problems += aggregate_problems(name, stage, draft)
    return problems


def _references(name: str, kind: str, draft: Draft) -> Iterator[Problem]:
    """The names that a stage of that kind mentions stand for what they should."""
    key: Key = ("stages", name)
    if kind in ("encode", "score", PAIRS_KIND):
        yield from _known((*key, "model"), "model", draft, draft.models)
    if kind == "search":
        index = draft.word(*key, "index")
        if index is not None:
            yield from _input((*key, "index"), index, name, draft, _INDEX_KINDS)
        tuned_on = (*key, "bm25", "tune", "queries")
        yield from _known(tuned_on, "query set", draft, draft.queries)
    if kind == "fuse":
        for inner, run in draft.words(*key, "runs"):
            yield from _input(inner, run, name, draft, RUN_KINDS)
    if kind in ("score", PAIRS_KIND) and (ranked := draft.word(*key, "run")) is not None:
        yield from _input((*key, "run"), ranked, name, draft, RUN_KINDS)
    if kind == "aggregate" and (pairs := draft.word(*key, "pairs")) is not None:
        yield from _input((*key, "pairs"), pairs, name, draft, (PAIRS_KIND,))
    stage = draft.stages[name]
    for queries in stage.runs if isinstance(stage, Read) else ():
        if queries not in draft.queries:
            yield _unknown((*key, "runs", queries), queries, "query set", draft.queries)


def _search(name: str, stage: Search, draft: Draft) -> Iterator[Problem]:
    key = ("stages", name, "bm25")
    if stage.bm25 is None:
        return
    if draft.kinds.get(stage.index) == "encode":
        text = f"for a Lucene index only, and {stage.index} holds embeddings; remove it"
        yield Problem(key, text)
    if stage.bm25.tune:
        yield from _tune(key, stage.bm25, stage.bm25.tune, draft)


def _tune(key: Key, bm25: Bm25, tune: Tune, draft: Draft) -> Iterator[Problem]:
    for field, value in (("k1", bm25.k1), ("b", bm25.b)):
        if value is not None:
            text = f"found {value} and a grid to tune it on; remove one of them"
            yield Problem((*key, field), text)
    inner = (*key, "tune", "queries")
    queries = draft.queries.get(tune.queries)
    if queries and not queries.judged:
        yield Problem(inner, f"tuning needs judgements; give qrels to the query set {tune.queries}")
    if queries and queries.report:
        text = f"{tune.queries} is reported, and queries that tune are no test of what they tuned;"
        yield Problem(inner, f"{text} set queries.{tune.queries}.report: false, or tune on others")


def _fuse(name: str, stage: Fuse) -> Iterator[Problem]:
    key = ("stages", name)
    for i, run in enumerate(stage.runs):
        if run in stage.runs[:i]:
            yield Problem((*key, "runs", i), f"{run} given twice; keep one of them")
    if stage.weights is not None and stage.method != "weighted":
        text = f"for method weighted only, not {stage.method}; remove them"
        yield Problem((*key, "weights"), text)
    elif stage.weights is not None and len(stage.weights) != len(stage.runs):
        text = f"expected {len(stage.runs)}, one for each of the runs; found {len(stage.weights)}"
        yield Problem((*key, "weights"), text)
    if stage.k is not None and stage.method != "rrf":
        yield Problem((*key, "k"), f"for method rrf only, not {stage.method}; remove it")


def _input(
    key: Key, wanted: str, name: str, draft: Draft, kinds: tuple[str, ...]
) -> Iterator[Problem]:
    """The wanted stage stands above the one of that name and is of one of the kinds."""
    names = list(draft.kinds)
    above = [other for other in names[: names.index(name)] if draft.kinds[other] in kinds]
    expected = f"expected an earlier stage of kind {' or '.join(kinds)}"
    if wanted not in names:
        hint = did_you_mean(wanted, above)
        yield Problem(key, f"{expected}; found {wanted!r}{hint} there are: {listed(above)}")
    elif names.index(wanted) >= names.index(name):
        place = "the stage itself" if wanted == name else f"a stage below {name}; move it up"
        yield Problem(key, f"{expected}; found {wanted!r}, {place}")
    elif wanted not in above and draft.kinds[wanted] in (*STAGE_KINDS, PAIRS_KIND):
        kind = draft.kinds[wanted]
        yield Problem(key, f"{expected}; found {wanted!r}, which is of kind {kind}")


def _known(key: Key, what: str, draft: Draft, known: Iterable[str]) -> Iterator[Problem]:
    found = draft.word(*key)
    if found is not None and found not in known:
        yield _unknown(key, found, what, known)


def _unknown(key: Key, found: str, what: str, known: Iterable[str]) -> Problem:
    hint = did_you_mean(found, known)
    return Problem(key, f"expected a {what}; found {found!r}{hint} there are: {listed(known)}")
