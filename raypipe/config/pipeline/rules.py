"""The rules between the parts of a recipe; the type of each value is checked elsewhere."""

from collections.abc import Iterator, Sequence

from raypipe.config.pipeline.draft import Draft
from raypipe.config.pipeline.parts import CarTopics, Collection, QuerySet
from raypipe.config.pipeline.references import reference_problems
from raypipe.config.pipeline.splitting import documents_problems
from raypipe.config.pipeline.units import unit_problems
from raypipe.config.yaml.document import Key, Problem
from raypipe.config.yaml.words import did_you_mean, listed
from raypipe.names import ROOT_FOLDERS


def rule_problems(draft: Draft) -> list[Problem]:
    """Every broken rule among the valid parts, in the order of the recipe."""
    problems = list(collection_problems(draft.collection)) if draft.collection else []
    for name, query_set in draft.queries.items():
        problems += _query_set(name, query_set, draft.collection) if query_set else []
    for name in draft.stages:
        if name in ROOT_FOLDERS:
            text = f"a store root has a folder of this name; any name but {listed(ROOT_FOLDERS)}"
            problems.append(Problem(("stages", name), text))
    for name, stage in draft.stages.items():
        problems += reference_problems(name, draft)
        problems += stage.problems(name, draft) if stage else ()
    problems += unit_problems(draft)
    problems += _reported(draft)
    return problems + list(_evaluate(draft))


def collection_problems(collection: Collection) -> Iterator[Problem]:
    """The broken rules of a collection, under the key `collection`."""
    python_docs = collection.format == "python-docs"
    if not collection.input and not python_docs:
        yield Problem(("collection", "input"), "missing; expected files or folders with passages")
    if collection.max_passages and not python_docs:
        text = f"for format python-docs only, not {collection.format}; remove it"
        yield Problem(("collection", "max_passages"), text)
    yield from documents_problems(collection)


def _query_set(name: str, queries: QuerySet, collection: Collection | None) -> Iterator[Problem]:
    key = ("queries", name)
    given = [queries.file, queries.car, queries.builtin]
    if (found := len(given) - given.count(None)) != 1:
        yield Problem(
            key, f"expected one of file, car and builtin; found {found or 'none'} of them"
        )
    if queries.car is not None:
        yield from _car(key, queries, queries.car)
    if queries.builtin and collection and collection.format != "python-docs":
        text = f"for format python-docs only, not {collection.format}; give file and qrels"
        yield Problem((*key, "builtin"), text)
    if queries.builtin and queries.qrels:
        text = f"the builtin set {queries.builtin} has judgements of its own; remove qrels"
        yield Problem((*key, "qrels"), text)
    if queries.document_qrels and collection and collection.split is None:
        text = "judges documents; expected a collection with split (docs/documents.md)"
        yield Problem((*key, "document_qrels"), text)
    if queries.only_judged and not queries.judged:
        yield Problem((*key, "only_judged"), "needs qrels; give them or remove only_judged")


def _car(key: Key, queries: QuerySet, car: CarTopics) -> Iterator[Problem]:
    if queries.qrels:
        yield Problem((*key, "qrels"), "TREC CAR's judgements are named under car; move it there")
    if car.pages and car.qrels:
        text = "expected one of pages and qrels; found both of them"
        yield Problem((*key, "car", "qrels"), text)
    if not (car.outlines or car.pages or car.qrels):
        text = "missing; expected outlines, or pages or qrels whose topics are the queries"
        yield Problem((*key, "car", "outlines"), text)


def _reported(draft: Draft) -> Iterator[Problem]:
    """Checks that stages with runs have a reported query set to search for."""
    if not any(draft.produces(name) in ("run", "pairs") for name in draft.stages):
        return
    if all(queries is not None and not queries.report for queries in draft.queries.values()):
        yield Problem(("queries",), "the stages make runs: expected a query set with report: true")


def _evaluate(draft: Draft) -> Iterator[Problem]:
    measures = [measure for _, measure in draft.words("evaluate", "measures")]
    if repeated := _repeated(measures):
        text = f"{listed(repeated)} given twice; keep one of them"
        yield Problem(("evaluate", "measures"), text)
    baseline = draft.word("evaluate", "baseline")
    runs = [name for name in draft.stages if draft.produces(name) == "run"]
    if baseline is not None and baseline not in runs:
        hint = did_you_mean(baseline, runs)
        text = f"expected a stage that makes a run; found {baseline!r}{hint} these do: "
        yield Problem(("evaluate", "baseline"), text + listed(runs))
    choose_on = draft.word("evaluate", "choose_on")
    judged = [name for name, q in draft.queries.items() if q is None or (q.judged and q.report)]
    if choose_on is not None and choose_on not in judged:
        hint = did_you_mean(choose_on, judged)
        text = f"expected a query set with judgements; found {choose_on!r}{hint} these have: "
        yield Problem(("evaluate", "choose_on"), text + listed(judged))


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
