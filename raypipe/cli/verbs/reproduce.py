"""The command reproduce."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import AsJson, OpenCluster
from raypipe.cli.output import print_result
from raypipe.cli.verbs.pipeline import execute
from raypipe.cli.verbs.train import execute_training, tell_model
from raypipe.config import Recipe
from raypipe.errors import IncompleteError, InputError, LimitError

if TYPE_CHECKING:
    from raypipe.report.steps import Planned


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reproduce)


def reproduce(
    name: Annotated[
        str, typer.Argument(help="bm25, repbert, monobert, duobert, multistage, car or cip.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Changed settings, of every step or, as STEP:KEY=VALUE, of one."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Holds msmarco, models and the like, where no variable names them."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Holds a workspace for each step; resumed if not new.")
    ] = Path("raypipe-reproduce"),
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this step; may be repeated.")
    ] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Only say what is wanted and what is missing.")
    ] = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Run a paper's recipes and print our values beside the published ones."""
    from raypipe.driver.report.lines import to_stderr
    from raypipe.report.inputs import missing, wanted, wrong_inputs
    from raypipe.report.published import reproduction
    from raypipe.report.reproduce import failures, outcome, unmeasured, write
    from raypipe.report.section import to_text
    from raypipe.report.steps import plan, unset_variables, variables

    of, changed = reproduction(name), settings or []
    steps = plan(of, out, data=data, only=only or [], settings=changed, env=os.environ)
    needed = wanted(of, out, steps, variables(os.environ, data))
    problems = missing(needed, unset_variables(os.environ, data))
    if inputs:
        found = [each.to_json() for each in needed]
        lines = [f"{'found' if each.is_there else 'missing'}: {each.line()}" for each in needed]
        print_result({"name": name, "inputs": found}, "\n".join(lines), as_json=as_json)
        return
    if problems:
        raise InputError(problems)
    for each in needed:
        to_stderr(f"found: {each.line()}")
    wrong = wrong_inputs(steps, needed)
    if wrong:
        raise InputError(wrong)
    for number, step in enumerate(steps, 1):
        to_stderr(f"{name}: {step.step.called} ({number} of {len(steps)}): {step.folder}")
        _run(step, allow_open_cluster)
    section = outcome(of, steps, changed)
    written = write(section, out)
    print_result(section.to_json(), to_text(section), as_json=as_json)
    for path in written:
        to_stderr(f"written: {path}")
    failed = failures(section)
    if failed:
        raise LimitError(
            "\n".join([f"reproduce {name}: {section.lead}", *(f"fail: {line}" for line in failed)])
        )
    absent = unmeasured(section)
    if absent:
        lines = [f"not measured: {line}" for line in absent]
        raise IncompleteError("\n".join([f"reproduce {name}: {section.lead}", *lines]))


def _run(planned: "Planned", allow_open_cluster: bool) -> None:
    """Run one step, or resume it; a finished one reuses what it has."""
    from raypipe.driver.pipeline import Options
    from raypipe.driver.training.place import TrainOptions

    address, planned_recipe = os.environ.get("RAY_ADDRESS"), planned.recipe
    if isinstance(planned_recipe, Recipe):
        options = Options(
            until=planned.step.until, ray_address=address, allow_open_cluster=allow_open_cluster
        )
        execute(planned_recipe, planned.folder, options, as_json=None)
    else:
        place = TrainOptions(ray_address=address, allow_open_cluster=allow_open_cluster)
        tell_model(execute_training(planned_recipe, planned.folder, place))
