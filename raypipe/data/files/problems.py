"""Problems with an input, collected so that a user sees them together."""

from raypipe.errors import InputError

MAX_SHOWN = 10


class Problems:
    """The first ten problems and a count of all."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.num_problems = 0

    def add(self, message: str) -> None:
        """Count a problem, and keep its message if it is among the first ten."""
        self.num_problems += 1
        if len(self.shown) < MAX_SHOWN:
            self.shown.append(message)

    def raise_if_any(self) -> None:
        """Raise the collected problems, if any.

        Raises:
            InputError: the first ten problems, then how many more there are.
        """
        if self.num_problems:
            raise InputError(self.told())

    def told(self) -> list[str]:
        """The first ten problems, then how many more there are."""
        hidden = self.num_problems - len(self.shown)
        return self.shown + ([f"and {hidden:,} more problems"] if hidden else [])


def again(place: str, own_id: str, first: str, kind: str = "passage") -> str:
    """What is said of an id that two records have."""
    return f"{place}: {kind} id {own_id!r} again, first in {first}; ids must be unique"
