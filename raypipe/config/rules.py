"""The rules between the parts of a recipe; the type of each value is checked elsewhere.

They run on a draft, a recipe with possibly invalid parts: the valid ones as objects, the others as
names only, so that one bad value does not hide other problems.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from raypipe.config.parts import CarTopics, Collection, Fields, Model, QuerySet, Split
from raypipe.config.yaml import Key, Problem
from raypipe.errors import did_you_mean, listed
from raypipe.kinds.kind import Around, Kind, Produces, Reference
from raypipe.kinds.registry import KINDS, Written, labels_of
from raypipe.names import ROOT_FOLDERS
from raypipe.vocabulary import WITH_FIELDS, Unit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecipeDraft(Around):
    """The parts in the order of the recipe; None marks a part that is missing or invalid."""

    collection: Collection | None
    models: Mapping[str, Model | None]
    labels: Mapping[str, str]
    """The name of each stage's kind in messages, "" for a stage without a kind."""
    data: Any
    """The data of the recipe as written."""

    def kind(self, name: str) -> type[Kind] | None:
        """The kind of a stage as written, valid or not; None if it has none."""
        return KINDS.get(self.word("stages", name, "do") or "")

    def produces(self, name: str) -> Produces | None:
        """The product of a stage, whether the stage is valid or not; None if unknown."""
        kind = self.kind(name)
        return kind.labels[self.labels[name]] if kind else None

    def word(self, *key: str | int) -> str | None:
        """The text at a key, in valid and invalid parts; None if there is none."""
        value = _at(self.data, key)
        return value if isinstance(value, str) else None

    def words(self, *key: str | int) -> list[tuple[Key, str]]:
        """The texts in the list at a key, each with its own key."""
        value = _at(self.data, key)
        entries = enumerate(value) if isinstance(value, list) else ()
        return [((*key, i), entry) for i, entry in entries if isinstance(entry, str)]

    def keys(self, *key: str | int) -> list[tuple[Key, str]]:
        """The keys of the mapping at a key, each with its own key."""
        return [((*key, name), name) for name in _mapping(_at(self.data, key))]


def draft(data: Any) -> RecipeDraft:
    """The draft of a recipe's data."""
    if not isinstance(data, dict):
        data = {}
    stages = _mapping(data.get("stages"))
    stage_type: TypeAdapter[Kind] = TypeAdapter(Written)
    return RecipeDraft(
        collection=_sound(TypeAdapter(Collection), data.get("collection")),
        queries=_each(TypeAdapter(QuerySet), data.get("queries")),
        models=_each(TypeAdapter(Model), data.get("models")),
        stages={name: _sound(stage_type, stage) for name, stage in stages.items()},
        labels={name: _label(stage) for name, stage in stages.items()},
        data=data,
    )


def _each(adapter: TypeAdapter[T], values: Any) -> Mapping[str, T | None]:
    return {name: _sound(adapter, value) for name, value in _mapping(values).items()}


def _sound(adapter: TypeAdapter[T], value: Any) -> T | None:
    try:
        return adapter.validate_python(value)
    except ValidationError:  # reported by structure.py, with the whole recipe
        return None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _label(stage: Any) -> str:
    written = _mapping(stage)
    do = written.get("do")
    if isinstance(do, str) and do in KINDS:
        return KINDS[do].label(written)
    return do if isinstance(do, str) else ""


def _at(data: Any, key: Key) -> Any:
    for part in key:
        data = _mapping(data).get(str(part))
    return data


def reference_problems(name: str, draft: RecipeDraft) -> Iterator[Problem]:
    """A problem for every name in a stage, valid or not, that does not refer to what it should."""
    kind = draft.kind(name)
    for reference in kind.references if kind else ():
        for key, value in _found(("stages", name, *reference.key), reference, draft):
            if reference.to == "model":
                yield from _known(key, value, "model", draft.models)
            elif reference.to == "query set":
                yield from _known(key, value, "query set", draft.queries)
            else:
                yield from _earlier(key, value, name, draft, reference.to)


def _found(key: Key, reference: Reference, draft: RecipeDraft) -> list[tuple[Key, str]]:
    """The names at a key of a stage, each with its own key."""
    if reference.where == "list":
        return draft.words(*key)
    if reference.where == "keys":
        return draft.keys(*key)
    word = draft.word(*key)
    return [] if word is None else [(key, word)]


def _known(key: Key, name: str, what: str, names: Iterable[str]) -> Iterator[Problem]:
    if name not in names:
        hint = did_you_mean(name, names)
        text = f"expected a {what}; found {name!r}{hint} there are: {listed(names)}"
        yield Problem(key, text)


def _earlier(
    key: Key, reference: str, name: str, draft: RecipeDraft, produces: Produces
) -> Iterator[Problem]:
    """Checks that the stage named is above the stage `name` and makes what is expected."""
    names = list(draft.labels)
    above = [other for other in names[: names.index(name)] if draft.produces(other) == produces]
    expected = f"expected an earlier stage of kind {' or '.join(labels_of(produces))}"
    if reference not in names:
        hint = did_you_mean(reference, above)
        yield Problem(key, f"{expected}; found {reference!r}{hint} there are: {listed(above)}")
    elif names.index(reference) >= names.index(name):
        place = "the stage itself" if reference == name else f"a stage below {name}; move it up"
        yield Problem(key, f"{expected}; found {reference!r}, {place}")
    elif reference not in above and draft.kind(reference) is not None:
        label = draft.labels[reference]
        yield Problem(key, f"{expected}; found {reference!r}, which is of kind {label}")


def units_of(stages: Mapping[str, Kind | None]) -> dict[str, Unit | None]:
    """The unit that each stage's run ranks; None if it is not known, as of an invalid stage."""
    units: dict[str, Unit | None] = {}
    for name, stage in stages.items():
        if stage is None or stage.ranks == "as its runs":
            inputs = (units.get(run) for run in (stage.inputs if stage else ()))
            units[name] = next((unit for unit in inputs if unit is not None), None)
        else:
            units[name] = stage.ranks
    return units


def unit_problems(draft: RecipeDraft) -> Iterator[Problem]:
    """A problem for every run of a stage that ranks something else than the stage needs."""
    units = units_of(draft.stages)
    for name, stage in draft.stages.items():
        if stage is not None and draft.produces(name) != "index":
            yield from _units_of_stage(name, stage, units, draft)


def _units_of_stage(
    name: str, stage: Kind, units: Mapping[str, Unit | None], draft: RecipeDraft
) -> Iterator[Problem]:
    key = ("stages", name)
    of_documents = "documents" in (stage.ranks, stage.reads)
    if of_documents and draft.collection is not None and draft.collection.split is None:
        text = "is about documents; expected a collection with split (docs/collections.md)"
        yield Problem(key, f"{stage.do} {text}")
    expected = units[name] if stage.reads == "as the first" else stage.reads
    for run in stage.inputs:
        unit = units.get(run)
        if draft.produces(run) == "run" and None not in (unit, expected) and unit != expected:
            remedy = (
                "make them of it with do: documents"
                if expected == "documents"
                else "take their passages with do: passages"
            )
            yield Problem(key, f"expected a run of {expected}; {run} ranks {unit}: {remedy}")


DOCUMENTS = ("msmarco-doc-v1", "msmarco-doc-v2", "jsonl")
"""Formats of documents, which are split into passages."""
WITH_HOMES = ("msmarco-v2", "jsonl")
"""Formats whose passages name the document that they are part of."""
_DEFAULTS = {
    "words": {"length": 100, "stride": 50, "title_words": 16, "headings_words": 32},
    "sentences": {"length": 10, "stride": 5, "title_words": 16, "headings_words": 32},
}


def documents_problems(collection: Collection) -> Iterator[Problem]:
    """The broken rules of `fields` and `split`, under the key `collection`."""
    form, fields, split = collection.format, collection.fields, collection.split
    if fields is not None and form not in WITH_FIELDS:
        text = f"for the formats {listed(WITH_FIELDS)}, not {form}; remove it"
        yield Problem(("collection", "fields"), text)
    if fields is not None:
        parts: set[str | None] = {fields.body}
        for key in ("title", "headings"):
            if (name := getattr(fields, key)) in parts:
                text = f"{name} is another part of the text already; name each part once"
                yield Problem(("collection", "fields", key), text)
            parts |= {name} - {None}
    by_id = split is not None and split.delimiter is not None
    if fields is None and form == "jsonl" and split is not None and not by_id:
        text = "missing; expected the names of the fields, at least id and body"
        yield Problem(("collection", "fields"), text)
    if split is None:
        if form in DOCUMENTS and form != "jsonl":
            text = "missing; these are documents, and stages work over passages: write split: {}"
            yield Problem(("collection", "split"), text)
        if fields is not None:
            yield from _not_read(fields, ("document", "spans"), "without split by: given")
        return
    expected = WITH_HOMES if split.by == "given" else DOCUMENTS
    if by_id:
        yield from _of_delimiter(collection, split)
    elif form not in expected:
        text = f"by: {split.by} is for the formats {listed(expected)}, not {form}"
        yield Problem(("collection", "split"), text)
    elif split.by == "given" and fields is not None and fields.document is None:
        text = "missing; by: given needs the field with the id of a passage's document"
        yield Problem(("collection", "fields", "document"), text)
    if fields is not None:
        others = ("title", "headings") if split.by == "given" else ("spans",)
        yield from _not_read(fields, others, f"with by: {split.by}")
    yield from _of_split(split)


def _not_read(fields: Fields, names: Sequence[str], where: str) -> Iterator[Problem]:
    for name in names:
        if getattr(fields, name) is not None:
            yield Problem(("collection", "fields", name), f"not read {where}; remove it")


def _of_delimiter(collection: Collection, split: Split) -> Iterator[Problem]:
    """The delimiter is for passages whose records do not name their document."""
    key = ("collection", "split", "delimiter")
    form = collection.format
    if split.by != "given":
        yield Problem(key, f"for by: given only, not {split.by}; remove it")
    elif form in DOCUMENTS and form != "jsonl":
        yield Problem(key, f"for passages; {form} holds documents: remove it, and by: given")
    elif form == "msmarco-v2":
        yield Problem(key, "the passages of msmarco-v2 name their documents; remove it")
    elif collection.fields is not None and collection.fields.document is not None:
        yield Problem(key, "fields.document names the document too; remove one of them")


def _of_split(split: Split) -> Iterator[Problem]:
    key = ("collection", "split")
    if split.by not in _DEFAULTS:
        names = ("length", "stride", "title_words", "headings_words", "at_most")
        for name in names:
            if getattr(split, name) is not None:
                yield Problem((*key, name), f"for words and sentences, not {split.by}; remove it")
        return
    whole = resolved_split(split)
    assert whole.length is not None and whole.stride is not None
    if whole.stride > whole.length:
        stated = f"found {whole.stride}" if split.stride else f"the default is {whole.stride}"
        text = f"{stated}, more than the length {whole.length}: words would be left out"
        yield Problem((*key, "stride"), f"{text}; expected at most {whole.length}")


def resolved_split(split: Split) -> Split:
    """The split with the defaults of its units."""
    given = {name: value for name, value in vars(split).items() if value is not None}
    return split.model_copy(update={**_DEFAULTS.get(split.by, {}), **given})


def rule_problems(draft: RecipeDraft) -> list[Problem]:
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
    if collection.snapshots and python_docs:
        yield Problem(("collection", "snapshots"), "python-docs has no snapshots; remove it")
    elif len(collection.snapshots) > 1 and collection.format != "ir-datasets":
        text = f"expected one folder, found {len(collection.snapshots)}; names are for ir-datasets"
        yield Problem(("collection", "snapshots"), text)
    if collection.id is not None:
        if collection.format not in ("jsonl", "parquet"):
            text = f"for formats jsonl and parquet only, not {collection.format}; remove it"
            yield Problem(("collection", "id"), text)
        elif collection.fields is not None or collection.split is not None:
            text = "for passages without fields and split only; remove it or these"
            yield Problem(("collection", "id"), text)
    yield from documents_problems(collection)


def _query_set(name: str, queries: QuerySet, collection: Collection | None) -> Iterator[Problem]:
    key = ("queries", name)
    given = [queries.file, queries.car, queries.builtin]
    if (number := len(given) - given.count(None)) != 1:
        yield Problem(
            key, f"expected one of file, car and builtin; found {number or 'none'} of them"
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
        text = "judges documents; expected a collection with split (docs/collections.md)"
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


def _reported(draft: RecipeDraft) -> Iterator[Problem]:
    """Checks that stages with runs have a reported query set to search for."""
    if not any(draft.produces(name) in ("run", "pairs") for name in draft.stages):
        return
    if all(queries is not None and not queries.report for queries in draft.queries.values()):
        yield Problem(("queries",), "the stages make runs: expected a query set with report: true")


def _evaluate(draft: RecipeDraft) -> Iterator[Problem]:
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


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
