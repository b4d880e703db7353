"""Where a model computes: device, tokens of one forward, threads, and what that promises."""

from dataclasses import dataclass

from raypipe.models.device import BUDGET_TOKENS, MOST_TOKENS, numerics_class
from raypipe.models.neighbours import Shape, settle


@dataclass(frozen=True, slots=True)
class Place:
    """A device, with what a model on it computes at once."""

    device: str
    """cpu or cuda."""
    budget_tokens: int
    """Tokens of one forward; they change no byte."""
    numerics: str
    """Within one such class a row has equal bytes, whatever the rows beside it."""

    def budget(self, asked: int | None) -> int:
        """Tokens of one forward where `asked` are wanted; None: those of the place."""
        return min(asked or self.budget_tokens, MOST_TOKENS[self.device])


def unproven(device: str) -> Place:
    """A device as it is, where nobody tried whether rows have neighbours, and nobody asks."""
    return Place(device, BUDGET_TOKENS[device], numerics_class(device, proven=False))


def settle_on(
    device: str,
    shapes: frozenset[Shape],
    *,
    threads: int,
    budget_tokens: int | None,
    longest: int,
) -> Place:
    """The place for a model; on one thread where more would let rows mix (see `settle`).

    Args:
        device: cpu or cuda.
        shapes: of the model's matrix products.
        threads: the most to compute with.
        budget_tokens: tokens of one forward, None: the device's own; so many rows are tried.
        longest: tokens of the longest input, which is one forward even where it is beyond them.
    """
    budget = min(budget_tokens or BUDGET_TOKENS[device], MOST_TOKENS[device])
    settled = settle(shapes, device=device, threads=threads, rows=max(budget, longest))
    return Place(device, budget, numerics_class(device, proven=settled.proven))
