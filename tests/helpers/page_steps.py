"""Runs a page of docs/ from its first step to its last, in one folder, as its reader would."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from raypipe.cli.main import run

DOCS = Path(__file__).parents[2] / "docs"
STEP = re.compile(
    r"^```(?P<kind>python|yaml)\n(?P<block>[\s\S]*?)^```$|^    (?P<line>\S.*)$", re.MULTILINE
)


class Step(NamedTuple):
    """One thing that a page tells its reader to do."""

    kind: str
    """python, yaml or line."""
    text: str
    """A block, or a command of the shell without its comment."""
    code: int = 0
    """The exit code that the comment behind a command tells: `# exit 4`."""


def steps_of(page: str) -> list[Step]:
    """The blocks and the indented commands of a page, in their order."""
    found = []
    for match in STEP.finditer((DOCS / page).read_text()):
        if match["kind"]:
            found.append(Step(match["kind"], match["block"]))
            continue
        command, _, comment = match["line"].partition("  # ")
        told = re.search(r"exit (\d+)", comment)
        found.append(Step("line", command.strip(), int(told[1]) if told else 0))
    return found


def follow(page: str, folder: Path) -> list[str]:
    """What each command printed, after every step was done and showed what the page says.

    A YAML block is written to the file that its first line names. `raypipe` and Python blocks run
    in this process, other commands in a shell; names of one Python block stay for the next. A block
    that starts Java runs apart: a Java that runs already looks for files where it was started.
    """
    names, printed, before = dict[str, object](), list[str](), Path.cwd()
    os.chdir(folder)
    try:
        for step in steps_of(page):
            if step.kind == "yaml":
                name = step.text.splitlines()[0].removeprefix("# ")
                Path(name).write_text(step.text)
            elif step.kind == "python" and "start_jvm" in step.text:
                _apart(step.text)
            elif step.kind == "python":
                _python(step.text, names)
            elif step.text.startswith("raypipe "):
                printed.append(_raypipe(step))
            else:
                subprocess.run(["bash", "-ec", step.text], check=True)
    finally:
        os.chdir(before)
    return printed


def _raypipe(step: Step) -> str:
    words = shlex.split(step.text)[1:]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as told:
        code, _ = run(words)
    assert code == step.code, f"{step.text}: exit {code}\n{told.getvalue()}"
    return out.getvalue()


def _python(code: str, names: dict[str, object]) -> None:
    """Run a block; it prints what the comments behind its prints show."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "the page", "exec"), names)
    assert out.getvalue().splitlines() == _shown(code), code


def _apart(code: str) -> None:
    """The same in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == _shown(code), done.stderr


def _shown(code: str) -> list[str]:
    """What the comments behind the prints say is printed."""
    return re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
