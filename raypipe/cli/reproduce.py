"""The commands quickstart and reproduce, which run packaged recipes one after the other."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypipe.cli.models import execute_training, tell_model
from raypipe.cli.options import AsJson, OpenCluster, Out
from raypipe.cli.pipeline import execute, tell_run
from raypipe.cli.terminal import print_result, show
from raypipe.config.load import load_recipe, load_training, recipe_text
from raypipe.config.recipe import Recipe
from raypipe.errors import IncompleteError, InputError, LimitError
from raypipe.evaluation.tables import brief

if TYPE_CHECKING:
    from raypipe.driver.training.train import Trained
    from raypipe.report.published import Planned


def quickstart(
    out: Out = Path("raypipe-quickstart"),
    passages: Annotated[
        int | None, typer.Option(help="Use a smaller collection, of 100 passages or more.", min=100)
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Then train a reranker for a minute with Ray Train.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index, search and rerank Python's own documentation; nothing is downloaded."""
    from raypipe.driver.pipeline import Options
    from raypipe.driver.progress import to_stderr

    overrides = [] if passages is None else [f"collection.max_passages={passages}"]
    recipe = load_recipe(recipe_text("quickstart"), overrides=overrides, source="quickstart")
    to_stderr("quickstart: Python's own documentation, BM25, MiniLM and two rerankers")
    outcome = execute(
        recipe, out, Options(), as_json=True if as_json and not train else None, last=False
    )
    trained = _train(out, passages) if train else None
    if trained is not None:
        both = {**outcome.summary, "train": trained.summary}
        print_result(both, trained.table, as_json=as_json)
    from raypipe.report.contents import report, standing_report
    from raypipe.report.finished import open_finished

    page = (report if trained else standing_report)(open_finished(out))
    if not as_json:
        show(brief(outcome.summary, "test"))
        print(_next(out, page, outcome.summary), flush=True)
    if trained is not None:
        tell_model(trained)
    tell_run(outcome, out)


def _train(out: Path, passages: int | None) -> "Trained":
    """Search the quickstart's own train queries, then train on them for a minute."""
    from raypipe.driver.pipeline import Options
    from raypipe.driver.progress import to_stderr

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


def _next(out: Path, page: Path, summary: Mapping[str, Any]) -> str:
    called = Path(sys.argv[0])
    program = str(called) if called.name == "raypipe" else "raypipe"
    sizes = next(note for note in summary["notes"]["test"]["passages"] if " passages, " in note)
    return (
        f"- {sizes}; nothing was tuned or trained on these queries\n"
        f"- wins, losses, costs and what the weights saw: {out / 'table.md'}\n"
        f"- charts and single queries, for a browser: {page}\n\n"
        "Next, change a setting; only what depends on it is computed. Or take your own files:\n\n"
        f"    {program} pipeline quickstart --out {out} stages.fused.method=alternate\n"
        f"    {program} init passages.tsv queries.tsv qrels.txt"
    )


def reproduce(
    name: Annotated[
        str,
        typer.Argument(help="bm25, minilm, repbert, monobert, duobert, multistage, car or cip."),
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
    from raypipe.driver.progress import to_stderr
    from raypipe.report.inputs import missing, wanted, wrong_inputs
    from raypipe.report.page import to_text
    from raypipe.report.published import plan, reproduction, unset_variables, variables
    from raypipe.report.reproduce import failures, outcome, unmeasured, write

    of, changed = reproduction(name), settings or []
    steps = plan(of, out, data=data, only=only or [], settings=changed, env=os.environ)
    needed = wanted(of, out, steps, variables(os.environ, data))
    problems = missing(needed, unset_variables(os.environ, data))
    if inputs:
        entries = [each.to_json() for each in needed]
        lines = [f"{'found' if each.is_there else 'missing'}: {each.line()}" for each in needed]
        print_result({"name": name, "inputs": entries}, "\n".join(lines), as_json=as_json)
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
