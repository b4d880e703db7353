"""The commands pipeline, plan, beir, table and recipes, and reindex, rollback and history."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypipe.cli.options import (
    WORKSPACE,
    AsJson,
    Folder,
    OpenCluster,
    Out,
    PipelineFolder,
    RecipeName,
)
from raypipe.cli.terminal import print_result, say, show, show_columns
from raypipe.config.load import named_recipe, purpose_of, recipe_names, recipe_text, verb_of
from raypipe.config.recipe import Recipe
from raypipe.errors import InputError, Interrupted, LimitError, RaypipeError, ending_of
from raypipe.markdown import joined
from raypipe.vocabulary import LEAST_GENERATIONS, TableFormat, listed

if TYPE_CHECKING:
    from raypipe.driver.pipeline import Options, Outcome
    from raypipe.driver.workspace import Workspace


Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changed settings, such as stages.bm25.depth=100.")
]
Frozen = Annotated[
    bool, typer.Option("--frozen", help="Exit with 4 if a setting differs from the last run's.")
]


def pipeline(
    recipe: RecipeName,
    overrides: Overrides = None,
    out: Out = Path("raypipe-work"),
    until: Annotated[
        str | None, typer.Option(help="Run this stage and everything it needs.")
    ] = None,
    frozen: Frozen = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Run a recipe; run the same command again to resume."""
    from raypipe.driver.pipeline import Options

    options = Options(
        until=until,
        frozen=frozen,
        ray_address=os.environ.get("RAY_ADDRESS"),
        allow_open_cluster=allow_open_cluster,
    )
    named = named_recipe(recipe, overrides=overrides or [], env=os.environ)
    execute(named, out, options, as_json=as_json)


def plan(
    recipe: RecipeName,
    overrides: Overrides = None,
    out: Annotated[
        Path, typer.Option("--out", help="The workspace whose stores would be reused.")
    ] = Path("raypipe-work"),
    as_json: AsJson = False,
) -> None:
    """Forecast what a recipe will take here: tokens, inferences, disk and time. Runs nothing."""
    from raypipe.driver.forecast.plan import make_plan

    forecast = make_plan(named_recipe(recipe, overrides=overrides or [], env=os.environ), out)
    print_result(forecast.to_json(), forecast.text(), as_json=as_json)


def init(
    passages: Annotated[
        str, typer.Argument(help="A file or folder of passages, in any form that prepare reads.")
    ],
    queries: Annotated[str, typer.Argument(help="A file of queries.")],
    qrels: Annotated[str | None, typer.Argument(help="A file of judgements.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(help="Encoders and rerankers, such as minilm, a folder, or OWNER/NAME."),
    ] = None,
    recipe: Annotated[Path, typer.Option(help="The file to write.")] = Path("my-recipe.yaml"),
) -> None:
    """Look at your files and write a recipe for them, which runs as it is."""
    from raypipe.driver.verbs.init_recipe import MODELS, write_recipe

    print(write_recipe(passages, queries, qrels, models or MODELS, recipe), end="")
    say(f"next: raypipe pipeline {recipe} --out work")


def beir(
    folder: Annotated[
        Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.")
    ],
    overrides: Overrides = None,
    out: Out = Path("raypipe-work"),
    split: Annotated[str, typer.Option(help="Which judgements: qrels/SPLIT.tsv.")] = "test",
    model: Annotated[
        str, typer.Option(help="The encoder: minilm, a model folder, or a hub's OWNER/NAME.")
    ] = "minilm",
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Search a collection of BEIR with BM25, an encoder and both, and measure it.

    The recipe is `english`; `raypipe recipes english` prints it.
    """
    from raypipe.driver.pipeline import Options
    from raypipe.driver.verbs.single_stage import beir_recipe

    recipe = beir_recipe(folder, split, model, overrides or [])
    address = os.environ.get("RAY_ADDRESS")
    options = Options(ray_address=address, allow_open_cluster=allow_open_cluster)
    execute(recipe, out, options, as_json=as_json)


def table(
    folder: PipelineFolder,
    written: Annotated[
        TableFormat | None,
        typer.Option("--format", help=f"{listed(TableFormat)}; default md, drawn on a terminal."),
    ] = None,
    query_set: Annotated[
        str | None, typer.Option("--queries", help="A query set; by default each one.")
    ] = None,
    measures: Annotated[
        str, typer.Option(help="Measures, in the notation of ir_measures; by default the recipe's.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Write a file, new or replaced, and print its name.")
    ] = None,
) -> None:
    """Print the results table of a finished pipeline, for a paper or a program."""
    from raypipe.evaluation.names import measures_in
    from raypipe.evaluation.tables import in_format, markdown
    from raypipe.report.finished import open_finished
    from raypipe.report.page import to_text
    from raypipe.report.results import results, write_beside
    from raypipe.report.snapshots import over_snapshots

    finished = open_finished(folder)
    is_shown = out is None and written is None
    moved = [to_text(section) for section in over_snapshots(folder, query_set) if is_shown]
    if moved and not finished.summary["measures"]:  # of the last snapshot
        show(joined(moved, apart=True))
        return
    tables = results(finished, query_set, measures_in(measures))
    if is_shown:
        show(joined([markdown(tables).trimmed(), *moved], apart=True))
        return
    text = in_format(tables, written or "md")
    if out is None:
        print(text, end="")
    else:
        print(write_beside(finished, out, text))


GROUPS = {
    "For your own collection, and to begin with; `raypipe init` writes a recipe for your files:": (
        *("english", "quickstart", "quickstart-train", "python-docs", "longeval"),
    ),
    "For figures in minutes, on small public collections; RAYPIPE_DATA names their folder:": (
        *("nfcorpus", "msmarco-v2-dl21", "dl21-first-stages", "car-test200"),
    ),
    "For researchers who reproduce papers; `raypipe reproduce NAME` runs them in order:": (),
}
"""The packaged recipes, by whom they are for; the last group has all others."""


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe.")] = None,
    json_schema: Annotated[
        bool,
        typer.Option("--json-schema", help="Print a JSON Schema of recipes, which editors read."),
    ] = False,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Print every key: of recipes, of the stage NAME, or of train."),
    ] = False,
) -> None:
    """List the packaged recipes with what each is for, or print one of them."""
    if keys:
        from raypipe.config.keys import keys_of

        show(keys_of(name))
        return
    if json_schema:
        if name is not None:
            raise InputError(f"{name}: not with --json-schema, which is of all recipes")
        from raypipe.config.keys import json_schema as schema

        print(json.dumps(schema(), indent=1, ensure_ascii=False))
        return
    if name is not None:
        print(recipe_text(name).rstrip())
        return
    left = recipe_names()
    for number, (group, names) in enumerate(GROUPS.items()):
        chosen = [each for each in left if each in names or not names]
        left = [each for each in left if each not in chosen]
        print("\n" * (number > 0) + group)
        texts = {each: recipe_text(each) for each in chosen}
        lines = [
            [name, f"raypipe {verb_of(text)}", purpose_of(text)] for name, text in texts.items()
        ]
        show_columns([["recipe", "command", "what it is for"], *lines])


def execute(
    recipe: Recipe,
    out: Path,
    options: "Options",
    *,
    as_json: bool | None,
    last: bool = True,
) -> "Outcome":
    """Run a recipe and print its table, or its summary as JSON; None prints neither.

    Without `last` the caller prints more, and then `tell_run`.
    """
    from raypipe.driver.pipeline import run_pipeline
    from raypipe.driver.progress import TerminalWatcher, to_stderr

    with TerminalWatcher(sys.stderr) as watcher:
        outcome = run_pipeline(recipe, out, options, watcher=watcher, say=to_stderr)
    if as_json:
        print(json.dumps(outcome.summary), flush=True)
    elif outcome.table and as_json is not None:
        show(outcome.table)
    if last:
        tell_run(outcome, out)
    return outcome


def tell_run(outcome: "Outcome", out: Path) -> None:
    """Print the last line of a command: stages, seconds, and the path of its run.

    A command with several runs names the workspace instead.
    """
    from raypipe.driver.mirror import address_of
    from raypipe.driver.progress import to_stderr

    stages = outcome.summary["stages"]
    reused = sum(1 for stage in stages.values() if stage["reused"])
    done = f"{len(stages)} stages, {reused} reused, {outcome.summary['seconds']} s"
    runs = [(name, system) for name, of in outcome.summary["systems"].items() for system in of]
    named = ["/".join(("runs", *run)) + ".trec" for run in runs]
    files = (
        [file for file in outcome.summary["files"] if file.startswith(named[0])] if named else []
    )
    where = f"/{files[0]}" if len(runs) == 1 and files else ""
    to_stderr(f"{done}: {address_of(out)}{where}")


class Reindex(typer.core.TyperCommand):
    """`reindex`, whose `--accept` may stand without a number, whatever follows it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does; `--accept` without a number has an empty one."""
        after = [*args[1:], ""]
        alone = [
            word == "--accept" and not next_.isdecimal()
            for word, next_ in zip(args, after, strict=True)
        ]
        given = [
            f"{word}=" if is_alone else word for word, is_alone in zip(args, alone, strict=True)
        ]
        return super().parse_args(ctx, given)


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
        str | None,
        typer.Option(
            metavar="[N]",
            help="Publish what was built as generation N and refused; N may be left out where only "
            "one was refused since the current generation.",
        ),
    ] = None,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Run a recipe over a changed collection and publish the result as the next generation.

    `snapshots=FOLDER`, short for `collection.snapshots=FOLDER`, does so for each folder in FOLDER.
    """
    changed = [f"collection.{o}" if o.startswith("snapshots=") else o for o in overrides or ()]
    named = named_recipe(recipe, overrides=changed, env=os.environ)
    if accept is not None:
        if accept and not accept.isdecimal():
            raise InputError(
                f"--accept {accept}: expected the number of a refused generation, or none; "
                "`raypipe history` lists them"
            )
        _accept(out, named.name, int(accept) if accept else None, as_json)
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
    if named.collection.snapshots:
        _reindex_snapshots(named, out, options, as_json)
        return
    outcome = _publish(named, out, options, as_json)
    tell_run(outcome, out)


def _publish(recipe: Recipe, out: Path, options: "Options", as_json: bool | None) -> "Outcome":
    """Run a recipe, and print its table and the line of its generation."""
    try:
        outcome = execute(recipe, out, options, as_json=as_json, last=False)
    except LimitError:
        if options.keep is not None:  # night after night may be refused
            _delete_retired(out)
        raise
    if not as_json:
        print(line_of(outcome.summary["generation"]), flush=True)
    if options.keep is not None:
        _delete_retired(out)
    return outcome


def _reindex_snapshots(recipe: Recipe, out: Path, options: "Options", as_json: bool) -> None:
    """Run the snapshots of a folder; print the line of each, and what changed between them."""
    from raypipe.driver.progress import to_stderr
    from raypipe.driver.snapshots import reindex_snapshots
    from raypipe.report.ir_metadata import draft_metadata
    from raypipe.report.page import to_text
    from raypipe.report.snapshots import over_snapshots

    def run(recipe: Recipe, options: "Options") -> "Outcome":
        if as_json:
            return execute(recipe, out, options, as_json=None, last=False)
        return _publish(recipe, out, options, None)

    record = reindex_snapshots(recipe, out, options, run, to_stderr)
    for left in draft_metadata(out):
        to_stderr(f"{left}: you have edited it, so it is left as it is")
    if as_json:
        print(json.dumps(record), flush=True)
        return
    show(joined([to_text(section) for section in over_snapshots(out)], apart=True))


def _delete_retired(out: Path) -> None:
    """Delete what only retired generations used; what fails is a warning."""
    from raypipe.driver.progress import to_stderr
    from raypipe.driver.upkeep.gc import delete, find_garbage

    try:
        workspace = _workspace(out)
        delete(workspace, find_garbage(workspace))
    except Interrupted:
        raise
    except (RaypipeError, OSError) as error:  # the invocation has ended as it did all the same
        to_stderr(f"warning: gc did not delete all: {ending_of(error).reason}")


def rollback(
    folder: Annotated[Path, typer.Argument(metavar=WORKSPACE, help="A workspace.")],
    to: Annotated[int | None, typer.Option(help="A generation; default the last but one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier generation current again, as a new one."""
    from raypipe.driver.generations.past import rollback as rolled_back
    from raypipe.driver.upkeep.status import line_of_generations

    made = rolled_back(_workspace(folder), line_of_generations(folder), to)
    body = {"number": made.number, **made.facts}
    text = (
        f"generation {made.number} is current, with the content of {made.facts['rolled_back_to']}"
    )
    print_result(body, text, as_json=as_json)


def history(folder: Folder, as_json: AsJson = False) -> None:
    """List the generations: when they were made, and what changed."""
    from raypipe.driver.generations.past import history as past
    from raypipe.driver.upkeep.status import line_of_generations
    from raypipe.storage.generations import none_yet

    stores, name = _workspace(folder).stores, line_of_generations(folder)
    generations = past(stores, name)
    if as_json:
        print(json.dumps({"generations": generations}))
        return
    if not generations:
        print(none_yet(stores, name))
    for generation in generations:
        print(line_of(generation))


def line_of(generation: dict[str, Any]) -> str:
    """One line about a generation."""
    number, passages = generation["number"], generation.get("passages")
    if generation.get("published") is False:
        return f"generation {number} stays current: nothing changed"
    refused = " (refused)" if generation.get("refused") else ""
    parts = [f"generation {number}{refused}", generation["made"], f"{passages:,} passages"]
    if "snapshot" in generation:
        parts.append(f"snapshot {generation['snapshot']}")
    if "rolled_back_to" in generation:
        return ", ".join([*parts, f"the content of generation {generation['rolled_back_to']}"])
    if "added" in generation:
        counts = (f"{generation[name]:,} {name}" for name in ("added", "removed", "changed"))
        parts += [*counts]
    parts += [f"{generation['rows_copied']:,} rows copied", f"{generation['seconds']} s"]
    for query_set, systems in generation.get("drift", {}).items():
        for system, drift in systems.items():
            overlap = drift["means"]["overlap@10"]
            over = f" over {drift['queries']:,} queries" if "queries" in drift else ""
            parts.append(f"{system} on {query_set}: overlap@10 {overlap:.3f}{over}")
    for query_set, systems in generation.get("not_compared", {}).items():
        parts += [f"{system} on {query_set}: not {why}" for system, why in systems.items()]
    if "accepted" in generation:
        parts.append(f"built and refused as generation {generation['accepted']}")
    return ", ".join(parts) + (f"; refused: {generation['refused']}" if refused else "")


def _accept(out: Path, name: str, refused: int | None, as_json: bool) -> None:
    from raypipe.driver.generations.past import accept_refused

    made = accept_refused(_workspace(out), name, refused)
    built = made.facts["accepted"]
    text = f"generation {made.number} is current: what was built as generation {built}"
    print_result({"number": made.number, **made.facts}, text, as_json=as_json)


def _workspace(folder: Path) -> "Workspace":
    from raypipe.driver.upkeep.status import open_workspace

    return open_workspace(folder)
