"""Numbers that a notebook gives: of Python or of numpy, checked."""

import math
from numbers import Integral, Real

from raypipe.errors import InputError


def count_of(name: str, value: object) -> int:
    """The value as an int, if it is a whole number from 1.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}: expected a whole number from 1; found {value!r}")
    return int(value)


def number_of(name: str, value: object, *, low: float = -math.inf, high: float = math.inf) -> float:
    """The value as a float, if it is a finite number from `low` to `high`.

    Raises:
        InputError: it is not.
    """
    found = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:  # an int beyond the range of a float
            pass
    if not (math.isfinite(found) and low <= found <= high):
        bounds = [
            f" from {low:g}" if low > -math.inf else "",
            f" to {high:g}" if high < math.inf else "",
        ]
        raise InputError(f"{name}: expected a finite number{''.join(bounds)}; found {shown(value)}")
    return found


def shown(value: object) -> str:
    """The value as messages show it; an int of hundreds of digits is cut."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print ints of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:60]}..."
