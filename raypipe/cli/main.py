"""The application with all commands; the way a command ends decides its exit code."""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import typer
import typer.exceptions

from raypipe import numerics
from raypipe.cli.verbs import (
    analyse,
    compare,
    leaderboard,
    model,
    pipeline,
    quickstart,
    reindex,
    reproduce,
    rerank,
    show,
    single,
    train,
    upkeep,
)
from raypipe.cli.workspaces import with_folders, workspace_of
from raypipe.driver.early_end import last_run, record_early_end
from raypipe.driver.machine import signals
from raypipe.errors import Ending, RaypipeError, ending_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Rank passage collections in batch, on one machine or a Ray cluster.",
)
quickstart.register(app)
pipeline.register(app)
leaderboard.register(app)
single.register(app)
rerank.register(app)
train.register(app)
reindex.register(app)
upkeep.register(app)
analyse.register(app)
show.register(app)
reproduce.register(app)
compare.register(app)
model.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; the last line on stderr gives code and reason."""
    numerics.set_strict()
    signals.leave_to_python()
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    logging.getLogger("raypipe").setLevel(logging.INFO)
    code, reason = run(list(sys.argv[1:] if arguments is None else arguments))
    sys.stdout.flush()
    print(f"raypipe: exit {code} ({reason})", file=sys.stderr, flush=True)
    _leave(code)


def _leave(code: int) -> None:
    """Exit; without Ray's own shutdown if its daemons have ended, as it would wait for them."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> tuple[int, str]:
    """(exit code, reason) of one command; problems are printed on stderr.

    An existing workspace says the same, also if the command ended before its work began.
    """
    try:
        arguments = with_folders(arguments)
    except RaypipeError as error:
        _tell(error, ending := ending_of(error))
        return ending
    folder = workspace_of(arguments)
    before = None if folder is None else last_run(folder)
    code, reason = _run(arguments)
    if folder is not None and code:
        with suppress(OSError):  # the process's own code is all that can be said then
            record_early_end(folder, before, code, reason)
    return code, reason


def _run(arguments: list[str]) -> tuple[int, str]:
    try:
        command = typer.main.get_command(app)
        result = command.main(args=arguments, prog_name="raypipe", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        return code, "complete" if code == 0 else "as recorded in the workspace"
    except typer.Abort:
        return 130, "interrupted"
    except typer.Exit as error:
        return error.exit_code, "complete" if error.exit_code == 0 else "as asked"
    except typer.exceptions.TyperException as error:
        reason = str(error) or "no command was given"
        print(f"error: {reason}", file=sys.stderr)
        return 2, reason
    except (Exception, KeyboardInterrupt) as error:
        ending = ending_of(error)
        _tell(error, ending)
        return ending


def _tell(error: BaseException, ending: Ending) -> None:
    """Print all that the error says; of a bug the traceback, which helps to mend it."""
    if ending.exit_code == 1:
        traceback.print_exception(error)
        return
    text = str(error) if isinstance(error, RaypipeError) else ending.reason
    for line in text.splitlines():
        print(f"error: {line}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(f"  {note}", file=sys.stderr)
