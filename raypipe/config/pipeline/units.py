"""What each stage's run ranks, passages or documents, and what a stage that reads it needs."""

from collections.abc import Iterator, Mapping

from raypipe.config.pipeline.draft import Draft
from raypipe.config.pipeline.kinds import Kind
from raypipe.config.yaml.document import Problem
from raypipe.vocabulary import Unit


def unit_of(name: str, stages: Mapping[str, Kind | None]) -> Unit | None:
    """What the run of a stage ranks; None if that is not known, as of an invalid stage."""
    stage = stages.get(name)
    if stage is None:
        return None
    if stage.ranks != "as its runs":
        return stage.ranks
    above = list(stages)[: list(stages).index(name)]
    earlier = {other: stages[other] for other in above}
    found = (unit_of(run, earlier) for run in stage.inputs)
    return next((unit for unit in found if unit is not None), None)


def unit_problems(name: str, draft: Draft) -> Iterator[Problem]:
    """A problem for every run of a stage that ranks something else than the stage needs."""
    stage, key = draft.stages[name], ("stages", name)
    if stage is None:
        return
    if stage.ranks == "documents" or stage.reads == "documents":
        collection = draft.collection
        if collection is not None and collection.split is None:
            text = "is about documents; expected a collection with split (docs/documents.md)"
            yield Problem(key, f"{stage.do} {text}")
    expected = unit_of(name, draft.stages) if stage.reads == "as the first" else stage.reads
    if draft.produces(name) == "index" or expected is None:
        return
    for run in stage.inputs:
        found = unit_of(run, draft.stages)
        if found is not None and found != expected and draft.produces(run) == "run":
            remedy = {
                "documents": "make them of it with do: documents",
                "passages": "take their passages with do: passages",
            }[expected]
            yield Problem(key, f"expected a run of {expected}; {run} ranks {found}: {remedy}")
