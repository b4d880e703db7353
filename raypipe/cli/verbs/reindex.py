"""The commands reindex, rollback and history."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypipe.cli.options import WORKSPACE, AsJson, Folder, OpenCluster, Out, RecipeName
from raypipe.cli.output import print_result
from raypipe.cli.verbs.pipeline import Frozen, Overrides, execute, tell_run
from raypipe.config import named_recipe
from raypipe.errors import Interrupted, RaypipeError, ending_of
from raypipe.vocabulary import LEAST_GENERATIONS

if TYPE_CHECKING:
    from raypipe.driver.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for verb in (reindex, rollback, history):
        app.command()(verb)


def reindex(
    recipe: RecipeName,
    overrides: Overrides = None,
    out: Out = Path("raypipe-work"),
    frozen: Frozen = False,
    max_drift: Annotated[
        list[str] | None,
        typer.Option(
            help="A limit, NAME=VALUE: overlap@10, overlap@100 or rbo must not be below it, a "
            "measure of the recipe must not fall by more. May be repeated."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            help="Keep so many generations; delete the older ones.", min=LEAST_GENERATIONS
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish what was last built beyond a limit.")
    ] = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Run a recipe over a changed collection and publish the result as the next generation."""
    named = named_recipe(recipe, overrides=overrides or [], env=os.environ)
    if accept:
        _accept(out, named.name, as_json)
        return
    from raypipe.driver.pipeline import Options

    options = Options(
        frozen=frozen,
        ray_address=os.environ.get("RAY_ADDRESS"),
        allow_open_cluster=allow_open_cluster,
        reindex=True,
        max_drift=tuple(max_drift or ()),
        keep=keep,
    )
    outcome = execute(named, out, options, as_json=as_json, last=False)
    if not as_json:
        print(line_of(outcome.summary["generation"]), flush=True)
    if keep is not None:
        from raypipe.driver.report.lines import to_stderr
        from raypipe.driver.upkeep.gc import delete, find_garbage

        try:
            workspace = _workspace(out)
            delete(workspace, find_garbage(workspace))
        except Interrupted:
            raise
        except (RaypipeError, OSError) as error:  # the generation is published all the same
            why = ending_of(error).reason
            to_stderr(f"warning: the generation is current, but gc did not delete all: {why}")
    tell_run(outcome, out)


def rollback(
    folder: Annotated[Path, typer.Argument(metavar=WORKSPACE, help="A workspace.")],
    to: Annotated[int | None, typer.Option(help="A generation; default the last but one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier generation current again, as a new one."""
    from raypipe.driver.generations.past import rollback as rolled_back
    from raypipe.driver.verbs.reading import line_of_generations

    made = rolled_back(_workspace(folder), line_of_generations(folder), to)
    told = {"number": made.number, **made.facts}
    text = (
        f"generation {made.number} is current, with the content of {made.facts['rolled_back_to']}"
    )
    print_result(told, text, as_json=as_json)


def history(folder: Folder, as_json: AsJson = False) -> None:
    """List the generations: when they were made, and what changed."""
    from raypipe.driver.generations.past import history as past
    from raypipe.driver.verbs.reading import line_of_generations
    from raypipe.storage.generations import none_yet

    stores, name = _workspace(folder).stores, line_of_generations(folder)
    found = past(stores, name)
    if as_json:
        print(json.dumps({"generations": found}))
        return
    if not found:
        print(none_yet(stores, name))
    for generation in found:
        print(line_of(generation))


def line_of(generation: dict[str, Any]) -> str:
    """One line about a generation."""
    number, passages = generation["number"], generation.get("passages")
    if generation.get("published") is False:
        return f"generation {number} stays current: nothing changed"
    refused = " (refused)" if generation.get("refused") else ""
    parts = [f"generation {number}{refused}", generation["made"], f"{passages:,} passages"]
    if "rolled_back_to" in generation:
        return ", ".join([*parts, f"the content of generation {generation['rolled_back_to']}"])
    if "added" in generation:
        counts = (f"{generation[name]:,} {name}" for name in ("added", "removed", "changed"))
        parts += [*counts]
    parts += [f"{generation['rows_copied']:,} rows copied", f"{generation['seconds']} s"]
    for query_set, systems in generation.get("drift", {}).items():
        for system, drift in systems.items():
            found = drift["means"]["overlap@10"]
            over = f" over {drift['queries']:,} queries" if "queries" in drift else ""
            parts.append(f"{system} on {query_set}: overlap@10 {found:.3f}{over}")
    for query_set, systems in generation.get("not_compared", {}).items():
        parts += [f"{system} on {query_set}: not {why}" for system, why in systems.items()]
    return ", ".join(parts)


def _accept(out: Path, name: str, as_json: bool) -> None:
    from raypipe.driver.generations.accepting import accept_refused

    made = accept_refused(_workspace(out), name)
    text = f"generation {made.number} is current, as it was built"
    print_result({"number": made.number, **made.facts}, text, as_json=as_json)


def _workspace(folder: Path) -> "Workspace":
    from raypipe.driver.upkeep.status import open_workspace

    return open_workspace(folder)
