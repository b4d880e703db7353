"""What each stage's run ranks, passages or documents, and what a stage that reads it needs."""

from collections.abc import Iterator, Mapping

from raypipe.config.pipeline.draft import Draft
from raypipe.config.pipeline.kinds import Kind
from raypipe.config.yaml.document import Problem
from raypipe.vocabulary import Unit


def units_of(stages: Mapping[str, Kind | None]) -> dict[str, Unit | None]:
    """What the run of each stage ranks; None if that is not known, as of an invalid stage."""
    found: dict[str, Unit | None] = {}
    for name, stage in stages.items():
        if stage is None or stage.ranks == "as its runs":
            known = (found.get(run) for run in (stage.inputs if stage else ()))
            found[name] = next((unit for unit in known if unit is not None), None)
        else:
            found[name] = stage.ranks
    return found


def unit_problems(draft: Draft) -> Iterator[Problem]:
    """A problem for every run of a stage that ranks something else than the stage needs."""
    units = units_of(draft.stages)
    for name, stage in draft.stages.items():
        if stage is not None and draft.produces(name) != "index":
            yield from _of_stage(name, stage, units, draft)


def _of_stage(
    name: str, stage: Kind, units: Mapping[str, Unit | None], draft: Draft
) -> Iterator[Problem]:
    key = ("stages", name)
    of_documents = "documents" in (stage.ranks, stage.reads)
    if of_documents and draft.collection is not None and draft.collection.split is None:
        text = "is about documents; expected a collection with split (docs/documents.md)"
        yield Problem(key, f"{stage.do} {text}")
    expected = units[name] if stage.reads == "as the first" else stage.reads
    for run in stage.inputs:
        found = units.get(run)
        if draft.produces(run) == "run" and None not in (found, expected) and found != expected:
            remedy = (
                "make them of it with do: documents"
                if expected == "documents"
                else "take their passages with do: passages"
            )
            yield Problem(key, f"expected a run of {expected}; {run} ranks {found}: {remedy}")
