"""The blend of a monoBERT model's scores with the order that they are given, and of stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.folder.settings import PairConventions
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.ranking.blend import Blend


MOST = 1e30
"""The largest weight: sums with it are finite in fp32, whatever a model's output is."""


def blend_of(
    conventions: PairConventions, weight: float | None, *, over_bm25: bool = False
) -> Blend | None:
    """The blend of this weight, or of the model's own; None for the model's scores alone.

    Args:
        conventions: the model's, with the scale of the scores.
        weight: None means that of the model.
        over_bm25: whether the run is known to be BM25's alone.

    Raises:
        InputError: the log odds of the blend cannot be had from such scores, or its sums may leave
            the range of fp32.
    """
    if weight is None and over_bm25:
        weight = conventions.blend_over_bm25
    weight = conventions.blend if weight is None else weight
    if not weight:
        return None
    if weight > MOST:
        raise InputError(f"blend: expected at most {MOST:g}, found {weight:g}")
    two_units = conventions.relevant_label is not None
    if conventions.score == "probability" or (conventions.score == "raw" and two_units):
        raise InputError(
            f"blend {weight:g} needs the model's log odds, which scores of the scale "
            f"{conventions.score} do not tell; expected score: log-probability, or blend: 0"
        )
    from raypipe.ranking.blend import Blend

    return Blend(weight, conventions.score)


def blend_and_depth(stored: Stored) -> tuple[Blend, int] | None:
    """The blend of a stored run of a monoBERT model, with its k0; None if it has no blend."""
    from raypipe.ranking.blend import Blend

    params: Any = stored.spec.params
    return (Blend(**params["blend"]), params["k0"]) if "blend" in params else None
