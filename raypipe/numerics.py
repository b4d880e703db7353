"""The environment variable that must be set before the first matrix product, for identical bytes.

Intel's MKL splits the inner sums of a product by its number of rows and threads, unless its strict
mode is on. It reads the mode once, at its first call, and silently ignores a misspelt one;
`raypipe.models.machine.device` reads back the mode in force.
"""

import os
from collections.abc import Mapping, MutableMapping

VARIABLE = "MKL_CBWR"
STRICT = "AUTO,STRICT"
"""The kernels that MKL would choose anyway, with sums in one order for any number of rows and
threads."""


def set_strict(environment: MutableMapping[str, str] | None = None) -> None:
    """Ask for strict mode in this process and its children, unless the user has set a mode.

    Importing raypipe does not call this: a program that uses it as a library keeps its own mode
    until it opens a model through `raypipe.api`.
    """
    (os.environ if environment is None else environment).setdefault(VARIABLE, STRICT)


def for_workers(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for workers on other machines: the mode of this process."""
    given = os.environ if environment is None else environment
    return {VARIABLE: given.get(VARIABLE, STRICT)}
