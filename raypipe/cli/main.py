"""The application with all commands; the way a command ends decides its exit code."""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
import typer.exceptions

from raypipe import numerics
from raypipe.cli.options import HELP, with_folders, workspace_of
from raypipe.cli.terminal import LEFT, guard_terminal, make_lasting, say, stdout_error
from raypipe.driver import signals
from raypipe.errors import Ending, InputError, Interrupted, RaypipeError, cause_of, ending_of
from raypipe.package import VERSION

KINDS = {
    1: "a bug in raypipe",
    2: "bad input or configuration",
    3: "incomplete, corrupt, or storage failed",
    4: "refused",
    5: "a limit was exceeded",
    130: "interrupted; the same command resumes",
    143: "interrupted; the same command resumes",
}
"""Exit code -> its meaning, for a command that has already printed the reason."""


class Ended(NamedTuple):
    """The end of a command."""

    exit_code: int
    reason: str
    told: bool = False
    """Whether the reason was printed; the last line then says only what the exit code means."""
    reports: bool = False
    """Whether its work is to print, so that what it printed says how it ended, unless it failed."""
    cause: str | None = None
    """A word for what ended it, if it failed; see `cause_of`."""

    def line(self) -> str:
        """The last line on stderr."""
        reason = KINDS.get(self.exit_code, self.reason) if self.told else self.reason
        return f"raypipe: exit {self.exit_code} ({reason})"


class _Verbs(typer.core.TyperGroup):
    """The commands; of Ctrl-C, typer would keep the code alone, like one that a command returns."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order of their panels; typer would put groups behind all others."""
        panel_of = {name: getattr(of, "rich_help_panel", "") for name, of in self.commands.items()}
        return sorted(panel_of, key=lambda name: [*PANELS].index(panel_of[name]))

    def invoke(self, ctx: Any) -> Any:
        """The command's result. Ctrl-C is raised as Abort."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error


def _print_version(version: bool) -> None:
    if version:
        print(f"raypipe {VERSION}")
        raise typer.Exit


def _raypipe(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Rank passage collections in batch, on one machine or a Ray cluster."""


PANELS = {
    "Run": {
        "quickstart": "reproduce",
        "init": "pipeline",
        "plan": "pipeline",
        "pipeline": "pipeline",
        "reindex": "pipeline",
        "train": "models",
        "beir": "pipeline",
        "reproduce": "reproduce",
        "recipes": "pipeline",
    },
    "Single stages": {
        "prepare": "stages",
        "tokenize": "stages",
        "encode": "stages",
        "index": "stages",
        "search": "stages",
        "fuse": "stages",
        "score": "stages",
        "aggregate": "stages",
    },
    "Results": {
        "table": "pipeline",
        "report": "analyse",
        "show": "analyse",
        "evaluate": "upkeep",
        "compare": "runs",
        "export": "stages",
        "analyse": "analyse",
        "leaderboard": "runs",
    },
    "Models": {"model": "models"},
    "Upkeep": {
        "status": "upkeep",
        "history": "pipeline",
        "rollback": "pipeline",
        "verify": "upkeep",
        "gc": "upkeep",
        "doctor": "upkeep",
    },
}
"""The verbs as `--help` groups them, each with its module in this package."""
GROUPS = ("analyse", "leaderboard", "model")
"""Verbs that have commands of their own: the module's `group`."""
CLASSES = {"reindex": "Reindex", **dict.fromkeys(PANELS["Single stages"], "Verb")}
"""The class of a verb's command, in its module, if it is not typer's own."""


@cache
def app(verb: str | None = None) -> typer.Typer:
    """The application with all commands, or with one: a command imports its own module alone."""
    made = typer.Typer(
        cls=_Verbs,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    made.callback()(_raypipe)
    for panel, verbs in PANELS.items():
        for name, file in verbs.items():
            if verb not in (None, name):
                continue
            module = import_module(f"raypipe.cli.{file}")
            if name in GROUPS:
                made.add_typer(module.group, name=name, rich_help_panel=panel)
                continue
            its_own = getattr(module, CLASSES[name]) if name in CLASSES else None
            made.command(rich_help_panel=panel, cls=its_own)(getattr(module, name))
    return made


def main(arguments: Sequence[str] | None = None, problems: Sequence[str] = ()) -> None:
    """Run a command and exit with its code; the last line on stderr gives code and reason.

    With problems it is refused for them.
    """
    make_lasting()
    numerics.set_strict()
    signals.leave_to_python()
    signals.end_on_sigterm()
    guard_terminal()
    logging.getLogger("raypipe").setLevel(logging.INFO)
    ended = run_and_tell(list(sys.argv[1:] if arguments is None else arguments), problems)
    if ended.exit_code or not ended.reports:
        say(ended.line())
    _leave(ended.exit_code)


def _leave(code: int) -> None:
    """Exit; without Ray's own shutdown if its daemons have ended, as it would wait for them."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> tuple[int, str]:
    """(exit code, reason) of one command; see `run_and_tell`."""
    ended = run_and_tell(arguments)
    return ended.exit_code, ended.reason


def run_and_tell(arguments: list[str], problems: Sequence[str] = ()) -> Ended:
    """How one command ended; problems are printed on stderr.

    The workspace in which it works says the same, also if it ended before its work began. A result
    that cannot be printed ends only a command whose work is to print it.
    """
    known = any(arguments[:1] == [name] for verbs in PANELS.values() for name in verbs)
    command = typer.main.get_command(app(arguments[0] if known else None))
    refused: RaypipeError | None = InputError(problems) if problems else None
    try:
        arguments = with_folders(command, arguments)
        folder = workspace_of(command, arguments)
    except RaypipeError as error:
        refused = refused or error
        folder = workspace_of(command, arguments)
    except OSError as error:  # of a name that no file system takes
        return _tell(error, ending_of(error))
    before = None
    if folder is not None:  # commands without a workspace begin sooner without it
        from raypipe.driver.invocation import last_run, record_end

        before = last_run(folder)
    ended = _run(command, arguments) if refused is None else _tell(refused, ending_of(refused))
    unprinted = stdout_error()
    if unprinted is not None and not ended.exit_code:
        if folder is None and not _writes(arguments):
            ended = _cut_off(unprinted)
        else:
            say(f"warning: the work is complete, but not all was printed: {_cause(unprinted)}")
    if folder is not None:
        with suppress(OSError):  # the process's own code is all that can be said then
            record_end(folder, before, ended.exit_code, ended.reason, ended.cause)
    return ended._replace(reports=folder is None and not _writes(arguments))


def _run(command: Any, arguments: list[str]) -> Ended:
    try:
        result = command.main(args=arguments, prog_name="raypipe", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        return Ended(code, "complete" if code == 0 else "as recorded in the workspace")
    except typer.Abort:
        return Ended(130, "interrupted", cause=Interrupted.cause)
    except typer.exceptions.TyperException as error:
        return _refused(error)
    except (Exception, KeyboardInterrupt) as error:
        return _tell(error, ending_of(error))


def _cut_off(error: OSError) -> Ended:
    """The end of a command whose output cannot be written."""
    if isinstance(error, BrokenPipeError):
        return Ended(ending_of(error).exit_code, LEFT, cause=cause_of(error))
    return _tell(error, ending_of(error))


def _writes(arguments: Sequence[str]) -> bool:
    """Whether the work of a command that works in no workspace is to write or delete files."""
    if {*HELP} & {*arguments} or arguments[:1] == ["plan"]:
        return False
    out = any(word.partition("=")[0] == "--out" for word in arguments)
    return out or "--yes" in arguments or arguments[:1] in (["init"], ["report"], ["reproduce"])


def _cause(error: OSError) -> str:
    return LEFT if isinstance(error, BrokenPipeError) else error.strerror or str(error)


def _refused(error: typer.exceptions.TyperException) -> Ended:
    """The end of a command line that is not understood; of an empty one the help was printed."""
    if not str(error):
        return Ended(2, "no command was given", cause=InputError.cause)
    reason, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    near, option = getattr(error, "possibilities", None), getattr(error, "option_name", None)
    remedy = None
    if context is not None and option is not None:
        from raypipe.cli import stages

        remedy = stages.in_place_of(str(context.info_name), option)
    if near:
        reason = error.message if remedy else f"{error.message}. Did you mean {near[0]!r}?"
    say(f"error: {reason}")
    if remedy is not None:
        say(f"  {remedy}")
    if context is not None:
        say(f"  `{context.command_path} -h` shows what it takes")
    return Ended(2, reason, told=True, cause=InputError.cause)


def _tell(error: BaseException, ending: Ending) -> Ended:
    """Print all that the error says; of a bug the traceback, which helps to mend it."""
    ended = Ended(*ending, told=True, cause=cause_of(error))
    if ending.exit_code == 1:
        say("".join(traceback.format_exception(error)).rstrip())
        return ended
    text = str(error) if isinstance(error, RaypipeError) else ending.reason
    for line in text.splitlines():
        say(f"error: {line}")
    for note in getattr(error, "__notes__", ()):
        say(f"  {note}")
    return ended
