"""Keeps files of the folder in which raypipe runs from being imported, here and in every child.

A user's `ssl.py` or `numpy.py` would be taken for the module of that name, and in a folder that was
downloaded it is a stranger's program. This module imports only what Python has loaded already: any
other name might be found in that folder.
"""

import os
import sys

_ALONE = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from raypipe.isolation import leave_folder
del sys.path[0]
leave_folder()
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""A child's program: it takes raypipe from its folder, and nothing that lies beside it."""
_OF_A_JOB = f"{os.sep}working_dir_files{os.sep}"
"""Part of the path at which Ray unpacks the working directory of a submitted job."""
_PROGRAMS = ("PATH", "LD_LIBRARY_PATH")
"""Where programs and their libraries are looked for. A relative entry, such as the empty one that a
colon too many makes, means the current folder."""


def leave_folder(*folders: str) -> None:
    """Take the current folder off Python's path, and off all paths of child processes.

    Python puts it there for `-m`, `-c` and an empty entry of PYTHONPATH; Ray does for the working
    directory of a job, which is taken off too. An absolute path that the user wrote into PYTHONPATH
    stays, unless it is one of `folders`. A package that was imported from there finds its own
    modules as before.
    """
    left = {os.path.realpath(folder) for folder in folders}
    named = _named(left)
    left |= _current()
    sys.path[:] = [
        entry
        for entry in sys.path
        if entry in named or not (_OF_A_JOB in entry or os.path.realpath(entry) in left)
    ]
    os.environ.pop("PYTHONPATH", None)
    os.environ.update(safe_variables(named))


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of raypipe in a Python of its own.

    Only raypipe itself is taken from the folder that holds it. See `child_environment`.
    """
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-P", "-c", _ALONE, place, module, *arguments]


def child_environment() -> dict[str, str]:
    """The environment of this process, in which no Python finds files of the current folder."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return others | safe_variables()


def safe_variables(named: list[str] | None = None) -> dict[str, str]:
    """The variables of `child_environment` that say where to look; those that are set.

    `named`: the entries of PYTHONPATH, by default those that stay.
    """
    named = _named(set()) if named is None else named
    variables = {"PYTHONSAFEPATH": "1"}
    if named:
        variables["PYTHONPATH"] = os.pathsep.join(named)
    for name in _PROGRAMS:
        if name in os.environ:
            entries = os.environ[name].split(os.pathsep)
            variables[name] = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    return variables


def _named(left: set[str]) -> list[str]:
    """The entries of PYTHONPATH but for those that mean the current folder or one of these."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [
        entry
        for entry in entries
        if entry
        and _OF_A_JOB not in entry
        and os.path.realpath(entry) not in (left if os.path.isabs(entry) else left | _current())
    ]


def _current() -> set[str]:
    try:
        return {os.path.realpath(os.getcwd())}
    except FileNotFoundError:  # it was deleted
        return set()
