"""What a training recipe says of sets whose qrels and runs name documents."""

from collections.abc import Iterator
from typing import Annotated, Any

from raypipe.config.fields import OWN, Count, Name, Section, Source
from raypipe.config.pipeline.parts import CIP
from raypipe.config.yaml.document import Key, Problem
from raypipe.vocabulary import K_MAX, DocumentMethod


class TrainDocuments(Section):
    """Examples of a set of documents: a passage of a relevant document, one of an irrelevant one.

    Every passage of a relevant document has its own negative, a passage of any irrelevant document
    of its query.
    """

    passages: Annotated[Count, Source(CIP)] = 32
    """Passages of a document that are used, the first ones."""
    best: Annotated[Count | None, Source(CIP, value=5, default=False)] = None
    """Keep only so many passages of each relevant document, those that `scored_by` scores highest,
    each with its negative. None keeps all."""
    scored_by: Name | None = None
    """The earlier phase whose model scores the passages of the relevant documents."""


class DevDocuments(Section):
    """A checkpoint is measured on the documents of the run, by the scores of all their passages."""

    method: Annotated[DocumentMethod, Source(OWN)] = "maxp"
    k: Annotated[Count | None, Source(CIP, value=K_MAX)] = None
    """For k-max-avgp only: the number of passages whose scores are averaged, 4 by default."""


def document_problems(recipe: Any, kind: str | None) -> Iterator[Problem]:
    """A problem for every broken rule about sets of documents; `recipe` is a Training."""
    for name, each in recipe.train.items():
        if each.documents is not None:
            yield from _collection(recipe, ("train", name), each)
            yield from _train(("train", name), each)
    for name, dev in recipe.dev.items():
        if dev.documents is None:
            continue
        key: Key = ("dev", name, "documents")
        yield from _collection(recipe, ("dev", name), dev)
        if dev.documents.k is not None and dev.documents.method != "k-max-avgp":
            text = f"for method k-max-avgp only, not {dev.documents.method}; remove it"
            yield Problem((*key, "k"), text)
        if kind == "duo":
            yield Problem(key, "a duoBERT model scores no single passage; remove it")


def _collection(recipe: Any, key: Key, each: Any) -> Iterator[Problem]:
    collection = recipe.collections.get(each.collection)
    if collection is not None and collection.split is None:
        text = f"expected a collection with split; collections.{each.collection} has none"
        yield Problem((*key, "documents"), text)


def _train(key: Key, each: Any) -> Iterator[Problem]:
    if each.negatives is None:
        yield Problem((*key, "documents"), "needs qrels and negatives, both of documents")
    if each.teacher is not None:
        yield Problem((*key, "teacher"), "has no scores of documents' passages; remove it")
    documents = each.documents
    if documents.best is not None and documents.scored_by is None:
        text = "missing; best needs the earlier phase whose model tells which passages they are"
        yield Problem((*key, "documents", "scored_by"), text)
    if documents.scored_by is not None and documents.best is None:
        text = "scores passages only to keep the best of them; give best, or remove it"
        yield Problem((*key, "documents", "scored_by"), text)
