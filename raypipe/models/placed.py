"""How a model computes on a device: in passes of fixed shape, or in batches as they come."""

from raypipe.models.family import Body
from raypipe.models.fixed.engine import FixedEngine
from raypipe.models.fixed.opening import FixedSettings, Work, open_fixed
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.machine.placing import Place, settle_on, shapes_of
from raypipe.models.packed import Linear


def placed(
    model: ModelFolder,
    body: Body,
    work: Work,
    *more: Linear,
    device: str,
    threads: int,
    budget_tokens: int | None,
    fixed: FixedSettings | None,
) -> tuple[FixedEngine | None, Place]:
    """The engine, or None without passes of fixed shape, and the place.

    Args:
        model: its family and precision.
        body: weights on the device.
        work: what is computed of an input.
        more: linear layers beside the body's.
        device: cpu or cuda.
        threads: see `settle`.
        budget_tokens: tokens in one forward pass; up to this number of rows are tested together.
        fixed: see `load_encoder`.
    """
    if body.packed and (fixed is not None or device == "cuda"):
        return open_fixed(
            model.family,
            body,
            work,
            fixed or FixedSettings(),
            device=device,
            precision=model.precision,
            budget_tokens=budget_tokens,
        )
    return None, settle_on(
        device,
        shapes_of(body, *more),
        precision=model.precision,
        threads=threads,
        budget_tokens=budget_tokens,
        longest=work.longest,
        packed=body.packed,
    )
