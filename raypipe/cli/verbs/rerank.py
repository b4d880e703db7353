"""Commands for reranking: score and aggregate."""

from pathlib import Path
from typing import Annotated

import typer

from raypipe.cli.given import MEASURED, Measures, on_disk
from raypipe.cli.options import AsJson, Inline, OnRay, OpenCluster, Out
from raypipe.cli.ties import Ties, checked
from raypipe.cli.verbs.single import Collection, FromGeneration, run_stages
from raypipe.errors import InputError
from raypipe.vocabulary import K0, K1, Aggregation, ScoreScale, listed


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for verb in (score, aggregate):
        app.command()(verb)


def score(
    run: Annotated[
        Path, typer.Option(help="A run file: TREC, MS MARCO, top1000, CSV, JSON or Parquet.")
    ],
    collection: Collection,
    queries: Annotated[Path, typer.Option(help="A queries file.")],
    model: Annotated[
        str,
        typer.Option(
            help="A reranker (monoBERT, duoBERT, monoT5, duoT5): a folder, a name on a hub, "
            "general-mono, minilm-mono, minilm-duo."
        ),
    ],
    out: Out,
    preset: Annotated[
        str | None, typer.Option(help="Settings by name: monobert, duobert, monot5, ...")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            help=f"Candidates for each query; default {K0} (monoBERT) or {K1} (duoBERT).", min=1
        ),
    ] = None,
    score: Annotated[str | None, typer.Option(help=f"monoBERT only: {listed(ScoreScale)}.")] = None,
    blend: Annotated[
        float | None,
        typer.Option(
            help="monoBERT only: weight of the run's own order beside the model's log odds.", min=0
        ),
    ] = None,
    tail: Annotated[
        str | None, typer.Option(help="monoBERT only: keep or drop what is below --depth.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(help="duoBERT only: pairs drawn for each candidate.", min=1)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="duoBERT only: seed of the draw.", min=0)] = None,
    segment_row: Annotated[
        str | None,
        typer.Option(help="duoBERT's third segment row if the model has two: zero or copy."),
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgements, to measure the new run.")] = None,
    measures: Measures = MEASURED,
    break_ties: Ties = "id",
    generation: FromGeneration = None,
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Score a run's candidates: monoBERT writes runs/queries/score.trec, duoBERT its pairs."""
    from raypipe.driver.report.lines import to_stderr
    from raypipe.driver.verbs.reading import generation_to_read
    from raypipe.driver.verbs.single_stage import model_of, score_recipe, with_commit
    from raypipe.models.folder.loading import resolve_model
    from raypipe.models.folder.model_folder import measurements

    ties = checked(break_ties)
    named = [("--run", run), ("--collection", collection), ("--queries", queries)]
    named += [("--qrels", qrels)] if qrels else []
    missing = [
        f"{flag} {path}: no such file or folder"
        for flag, path in named
        for place in on_disk(path)
        if not place.exists()
    ]
    if missing:
        raise InputError(missing)
    keys, folder = with_commit(model_of(model, preset), out, to_stderr)
    opened = resolve_model(folder, preset)
    kind = opened.reranker.kind
    if (told := measurements(opened)) is not None:
        typer.echo(f"{model}: {told}", err=True)
    if segment_row is not None:
        keys["model"]["segment_row"] = segment_row
    recipe = score_recipe(
        run,
        collection,
        queries,
        model=keys,
        duo=kind == "duo",
        depth=depth,
        settings={"score": score, "blend": blend, "tail": tail, "sample": sample, "seed": seed},
        qrels=qrels,
        measures=measures,
        break_ties=ties,
    )
    reading = generation_to_read(collection, generation)
    run_stages(recipe, out, as_json, allow_open_cluster, (inline, ray), reading=reading)


def aggregate(
    pairs: Annotated[
        Path, typer.Option(help="The workspace of `raypipe score` with a duoBERT model.")
    ],
    method: Annotated[
        str,
        typer.Option(help=f"{listed(Aggregation)}."),
    ],
    out: Out,
    k1: Annotated[int | None, typer.Option(help="Candidates for each query; default all.")] = None,
    m: Annotated[
        int | None, typer.Option(help="For sample: pairs drawn for each candidate.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For sample: seed of the draw.", min=0)] = 0,
    tail: Annotated[str, typer.Option(help="keep or drop the candidates below k1.")] = "keep",
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Turn duoBERT's pairs into a run: runs/SET/METHOD.trec."""
    from raypipe.driver.verbs.single_stage import aggregate_recipe

    recipe = aggregate_recipe(pairs, method=method, k1=k1, m=m, seed=seed, tail=tail)
    run_stages(recipe, out, as_json, allow_open_cluster, (inline, ray))
