"""Which runs are rankings of a larger collection, of which the recipe's is a part."""

from collections.abc import Mapping

from raypipe.config.pipeline.kinds import Kind, Read


def larger_collections(stages: Mapping[str, Kind]) -> dict[str, str | None]:
    """For each stage the name of the larger collection that its runs come from, if there is one.

    A stage over such a run, such as a merge, is counted with it: which passages it has, and so its
    measures, depend on what the larger collection holds. Of several names the first one counts.
    """
    found: dict[str, str | None] = {}
    for name, stage in stages.items():
        own = stage.larger_collection if isinstance(stage, Read) else None
        below = (found[each] for each in stage.inputs)
        found[name] = own or next((each for each in below if each is not None), None)
    return found
