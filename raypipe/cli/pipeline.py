"""quickstart, pipeline and recipes."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.config import Recipe, load_recipe, load_training, recipe_names, recipe_text, verb_of
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.driver.pipeline import Options, Outcome
    from raypipe.driver.train import Trained

Out = Annotated[Path, typer.Option("--out", help="The workspace: made, or resumed.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Overrides, such as stages.bm25.depth=100.")
]
OpenCluster = Annotated[
    bool, typer.Option("--allow-open-cluster", help="Use a cluster without token authentication.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(quickstart)
    app.command(name="pipeline")(pipeline)
    app.command()(recipes)


def quickstart(
    out: Out = Path("raypipe-quickstart"),
    passages: Annotated[
        int | None, typer.Option(help="A smaller collection, of 100 passages or more.", min=100)
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Then train a reranker for a minute on Ray Train.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index, search and rerank Python's own documentation: real models, nothing fetched."""
    from raypipe.driver.pipeline import Options, to_stderr

    overrides = [] if passages is None else [f"collection.max_passages={passages}"]
    recipe = load_recipe(recipe_text("quickstart"), overrides=overrides, source="quickstart")
    to_stderr("quickstart: Python's own documentation, BM25, MiniLM and a reranker over it")
    outcome = execute(recipe, out, Options(), as_json=None if train and as_json else as_json)
    if train:
        trained = _train(out, passages)
        print(
            json.dumps({**outcome.summary, "train": trained.summary}) if as_json else trained.table
        )
    if not as_json:
        print(_next(out))


def _train(out: Path, passages: int | None) -> "Trained":
    """The quickstart's own train queries searched, then a minute of training on them."""
    from raypipe.cli.train import execute_training
    from raypipe.driver.pipeline import Options, to_stderr

    own = (out / "train-queries").absolute()
    overrides = [f"stores={(out / 'stores').absolute()}"]
    overrides += [] if passages is None else [f"collection.max_passages={passages}"]
    recipe = load_recipe(recipe_text("python-docs"), overrides=overrides, source="python-docs")
    to_stderr("quickstart: runs over the train and dev queries, then a minute of training")
    execute(recipe, own, Options(), as_json=None)
    training = load_training(
        recipe_text("quickstart-train"),
        overrides=[f"stores={(out / 'stores').absolute()}"],
        env={"OWN": str(own)},
        source="quickstart-train",
    )
    return execute_training(training, out / "trained")


def pipeline(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or the name of a packaged recipe.")],
    overrides: Overrides = None,
    out: Out = Path("raypipe-work"),
    only: Annotated[str | None, typer.Option(help="This stage; its inputs are stored.")] = None,
    until: Annotated[str | None, typer.Option(help="This stage and what it needs.")] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Exit 4 if a setting differs from the last time.")
    ] = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Bring every stage of a recipe to completion; run it again to resume."""
    from raypipe.driver.pipeline import Options

    options = Options(
        only=only,
        until=until,
        frozen=frozen,
        ray_address=os.environ.get("RAY_ADDRESS"),
        allow_open_cluster=allow_open_cluster,
    )
    execute(named_recipe(recipe, overrides or []), out, options, as_json=as_json)


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this one.")] = None,
) -> None:
    """The packaged recipes, or one of them."""
    if name is not None:
        print(recipe_text(name).rstrip())
        return
    width = max(map(len, recipe_names()))
    for verb in ("pipeline", "train"):
        for each in recipe_names(verb):
            print(f"{each:{width}}  raypipe {verb}")


def named_recipe(recipe: str, overrides: list[str]) -> Recipe:
    """The recipe of a file, or the packaged one of that name."""
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml") or path.exists():
        if not path.is_file():
            raise InputError(f"{path}: no such recipe file; `raypipe recipes` lists packaged ones")
        _refuse_training(path.read_text(encoding="utf-8-sig", errors="replace"), recipe)
        return load_recipe(path, overrides=overrides, env=os.environ)
    text = recipe_text(recipe)
    _refuse_training(text, recipe)
    return load_recipe(
        text, overrides=overrides, env=os.environ, base=Path.cwd(), source=f"recipe {recipe}"
    )


def _refuse_training(text: str, name: str) -> None:
    if verb_of(text) == "train":
        raise InputError(f"{name}: a training's recipe, it has a loss; use `raypipe train {name}`")


def execute(recipe: Recipe, out: Path, options: "Options", *, as_json: bool | None) -> "Outcome":
    """Run a recipe and print its table, or its summary as JSON; with None neither."""
    from raypipe.driver.pipeline import run_pipeline, to_stderr
    from raypipe.driver.progress import TerminalWatcher

    watcher = TerminalWatcher(sys.stderr)
    try:
        outcome = run_pipeline(recipe, out, options, watcher=watcher, say=to_stderr)
    finally:
        watcher.stop()
    stages = outcome.summary["stages"]
    reused = sum(1 for stage in stages.values() if stage["reused"])
    to_stderr(f"{len(stages)} stages, {reused} reused, {outcome.summary['seconds']} s: {out}")
    if as_json:
        print(json.dumps(outcome.summary))
    elif outcome.table and as_json is not None:
        print(outcome.table)
    return outcome


def _next(out: Path) -> str:
    called = Path(sys.argv[0])
    program = str(called) if called.name == "raypipe" else "raypipe"
    return (
        "Runs, measures and this table are in the workspace. Next, fuse otherwise or rerank\n"
        "deeper; only what changes is computed:\n\n"
        f"    {program} pipeline quickstart --out {out} stages.fused.method=alternate\n\n"
        f"and `{program} recipes` for collections of your own. Next would be duo-sum: no duo\n"
        "model comes with raypipe, but one of yours scores every pair of the mono's first\n"
        "candidates with\n\n"
        f"    {program} score --run {out}/runs/test/mono.trec --collection {out} "
        f"--queries {out}/python-docs/queries.test.tsv --model FOLDER --depth 5 --out duo"
    )
