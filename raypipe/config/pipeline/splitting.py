"""The rules and defaults of a collection of documents."""

from collections.abc import Iterator

from raypipe.config.pipeline.parts import Collection, Split
from raypipe.config.yaml.document import Problem
from raypipe.config.yaml.words import listed

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
    if fields is not None and form != "jsonl":
        yield Problem(("collection", "fields"), f"for format jsonl only, not {form}; remove it")
    if fields is None and form == "jsonl" and split is not None:
        text = "missing; expected the names of the fields, at least id and body"
        yield Problem(("collection", "fields"), text)
    if split is None:
        if form in DOCUMENTS and (form != "jsonl" or fields is not None):
            text = "missing; these are documents, and stages work over passages: write split: {}"
            yield Problem(("collection", "split"), text)
        return
    expected = WITH_HOMES if split.by == "given" else DOCUMENTS
    if form not in expected:
        text = f"by: {split.by} is for the formats {listed(expected)}, not {form}"
        yield Problem(("collection", "split"), text)
    elif split.by == "given" and fields is not None and fields.document is None:
        text = "missing; by: given needs the field with the id of a passage's document"
        yield Problem(("collection", "fields", "document"), text)
    if fields is not None:
        others = ("title", "headings") if split.by == "given" else ("spans",)
        for name in others:
            if getattr(fields, name) is not None:
                yield Problem(
                    ("collection", "fields", name), f"not read with by: {split.by}; remove it"
                )
    yield from _of_split(split)


def _of_split(split: Split) -> Iterator[Problem]:
    key = ("collection", "split")
    if split.by not in _DEFAULTS:
        names = ("length", "stride", "title_words", "headings_words", "at_most")
        for name in names:
            if getattr(split, name) is not None:
                yield Problem((*key, name), f"for words and sentences, not {split.by}; remove it")
        return
    whole = resolved(split)
    assert whole.length is not None and whole.stride is not None
    if whole.stride > whole.length:
        found = f"found {whole.stride}" if split.stride else f"the default is {whole.stride}"
        text = f"{found}, more than the length {whole.length}: words would be left out"
        yield Problem((*key, "stride"), f"{text}; expected at most {whole.length}")


def resolved(split: Split) -> Split:
    """The split with the defaults of its units."""
    given = {name: value for name, value in vars(split).items() if value is not None}
    return split.model_copy(update={**_DEFAULTS.get(split.by, {}), **given})
