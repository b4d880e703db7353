"""Where a model computes: device, tokens in one forward pass, threads and numerics class."""

from dataclasses import dataclass

from raypipe.models.machine.device import BUDGET_TOKENS, MOST_TOKENS, numerics_class
from raypipe.models.machine.neighbours import Shape, settle
from raypipe.models.machine.precision import set_products


@dataclass(frozen=True, slots=True)
class Place:
    """A device, with the amount that a model computes at once on it, and in which precision."""

    device: str
    """cpu or cuda."""
    budget_tokens: int
    """Tokens in one forward pass; they change no byte."""
    numerics: str
    """The numerics class, within which a row has equal bytes, whatever the rows beside it."""
    precision: str = "fp32"
    """Of the products."""

    def budget(self, asked: int | None) -> int:
        """Tokens in one forward pass if `asked` are requested; None means those of the place."""
        return min(asked or self.budget_tokens, MOST_TOKENS[self.device])


def unproven(device: str) -> Place:
    """A device without the test of neighbouring rows, for uses that do not depend on it; fp32."""
    return Place(device, BUDGET_TOKENS[device], numerics_class(device, proven=False))


def settle_on(
    device: str,
    shapes: frozenset[Shape],
    *,
    precision: str,
    threads: int,
    budget_tokens: int | None,
    longest: int,
    packed: bool = True,
) -> Place:
    """The place for a model; on one thread if rows would affect each other (see `settle`).

    Args:
        device: cpu or cuda.
        shapes: those of the model's matrix products.
        precision: in which they are computed.
        threads: the largest number of threads.
        budget_tokens: tokens in one forward pass; None means the device's default. As many rows are
            tested.
        longest: tokens of the longest input, which is one forward pass even if it exceeds the
            budget.
        packed: whether nothing but the products could make a row depend on its neighbours.
    """
    budget = min(budget_tokens or BUDGET_TOKENS[device], MOST_TOKENS[device])
    set_products(precision)
    rows = max(budget, longest)
    settled = settle(shapes, device=device, threads=threads, rows=rows)
    numerics = numerics_class(device, precision=precision, proven=settled.proven and packed)
    return Place(device, budget, numerics, precision)
