"""What a `with` block closes at its end."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Stays open until `close`, or until the end of a `with` block, whatever ends it."""

    @abstractmethod
    def close(self) -> None:
        """Give up what is held; once is enough."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
