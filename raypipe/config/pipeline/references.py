"""The names that stages mention: models, query sets, and earlier stages of the right kind."""

from collections.abc import Iterable, Iterator

from raypipe.config.pipeline.draft import Draft
from raypipe.config.pipeline.kinds import Produces, labels_of
from raypipe.config.pipeline.kinds.kind import Reference
from raypipe.config.yaml.document import Key, Problem
from raypipe.config.yaml.words import did_you_mean, listed


def reference_problems(name: str, draft: Draft) -> Iterator[Problem]:
    """A problem for every name in a stage, valid or not, that does not refer to what it should."""
    kind = draft.kind(name)
    for reference in kind.references if kind else ():
        for key, found in _found(("stages", name, *reference.key), reference, draft):
            if reference.to == "model":
                yield from _known(key, found, "model", draft.models)
            elif reference.to == "query set":
                yield from _known(key, found, "query set", draft.queries)
            else:
                yield from _earlier(key, found, name, draft, reference.to)


def _found(key: Key, reference: Reference, draft: Draft) -> list[tuple[Key, str]]:
    """The names at a key of a stage, each with its own key."""
    if reference.where == "list":
        return draft.words(*key)
    if reference.where == "keys":
        return draft.keys(*key)
    word = draft.word(*key)
    return [] if word is None else [(key, word)]


def _known(key: Key, found: str, what: str, known: Iterable[str]) -> Iterator[Problem]:
    if found not in known:
        hint = did_you_mean(found, known)
        text = f"expected a {what}; found {found!r}{hint} there are: {listed(known)}"
        yield Problem(key, text)


def _earlier(
    key: Key, wanted: str, name: str, draft: Draft, produces: Produces
) -> Iterator[Problem]:
    """Checks that the wanted stage is above the stage `name` and makes what is expected."""
    names = list(draft.labels)
    above = [other for other in names[: names.index(name)] if draft.produces(other) == produces]
    expected = f"expected an earlier stage of kind {' or '.join(labels_of(produces))}"
    if wanted not in names:
        hint = did_you_mean(wanted, above)
        yield Problem(key, f"{expected}; found {wanted!r}{hint} there are: {listed(above)}")
    elif names.index(wanted) >= names.index(name):
        place = "the stage itself" if wanted == name else f"a stage below {name}; move it up"
        yield Problem(key, f"{expected}; found {wanted!r}, {place}")
    elif wanted not in above and draft.kind(wanted) is not None:
        label = draft.labels[wanted]
        yield Problem(key, f"{expected}; found {wanted!r}, which is of kind {label}")
