"""Which functions of raypipe a test file runs, its child processes included."""

from dataclasses import dataclass

from draw import Mutant

TRACE = """
import atexit, json, os, sys, threading
FOLDER, ROOT, SEEN = os.environ["MUTANTS_TRACE"], os.environ["MUTANTS_ROOT"], set()
def call(frame, event, arg):
    SEEN.add(frame.f_code)
def save():
    sys.settrace(None)
    found = {(c.co_filename[len(ROOT):], c.co_qualname) for c in set(SEEN)
             if c.co_filename.startswith(ROOT)}
    if found:
        with open(os.path.join(FOLDER, f"{os.getpid()}.json"), "w") as out:
            json.dump(sorted(found), out)
threading.settrace(call)
sys.settrace(call)
atexit.register(save)
"""
SITE = "import os\nif 'MUTANTS_TRACE' in os.environ:\n    import mutants_trace\n"


@dataclass(frozen=True, slots=True)
class Calm:
    """A test file without a mutant."""

    green: bool
    seconds: float
    ran: list[list[str]]
    """[file, function] of raypipe."""
    said: str


def relevant(mutant: Mutant, calm: dict[str, Calm]) -> list[str]:
    """Test files that run the mutant's function, the quickest first."""
    inside = mutant.function != "<module>"
    wanted = []
    for file, found in calm.items():
        for ran_file, function in found.ran:
            if ran_file == mutant.file and (
                (function + ".").startswith(mutant.function + ".") if inside else function[0] != "<"
            ):
                wanted.append(file)
                break
    return sorted(wanted, key=lambda file: calm[file].seconds)
