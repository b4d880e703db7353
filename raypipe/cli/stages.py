"""Commands for one stage, each a recipe of that stage over a workspace; and export."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypipe.cli.options import (
    MEASURED,
    AsJson,
    Inline,
    Measures,
    OnRay,
    OpenCluster,
    Out,
    OutOrNone,
    Ties,
    refuse_missing,
)
from raypipe.cli.terminal import beginning, print_result, terminal_width
from raypipe.errors import InputError
from raypipe.markdown import plain
from raypipe.vocabulary import (
    BM25_B,
    BM25_K1,
    DEPTH,
    K0,
    K1,
    RRF_K,
    Aggregation,
    Format,
    FusionMethod,
    ScoreScale,
    listed,
)

if TYPE_CHECKING:
    from raypipe.config import Recipe

NUM_LINES = 3
"""Lines of a passage's text that are shown."""


def text_of_hits(query: str, hits: Sequence[Mapping[str, Any]]) -> str:
    """Rank, score and id of each passage on a line, and below it the beginning of its text."""
    if not hits:
        return f"no passage for {plain(query)!r}"
    width = max(6, terminal_width() - 4)
    lines = []
    for hit in hits:
        lines.append(f"{hit['rank']:>3} {hit['score']:.4f} {plain(str(hit['passage_id']))}")
        lines += [f"    {line}" for line in beginning(str(hit["text"]), width, NUM_LINES)]
    return "\n".join(lines)


Collection = Annotated[
    Path,
    typer.Option(
        help="A workspace, a .tsv, .csv, .jsonl, .parquet or .txt file, a BEIR folder, or irds:ID."
    ),
]
FromGeneration = Annotated[
    int | None,
    typer.Option("--generation", help="Read this generation of the workspace, not the newest."),
]
Model = Annotated[str, typer.Option(help="A model folder, a hub's OWNER/NAME, or minilm.")]
Preset = Annotated[str | None, typer.Option(help="Settings by name: repbert, minilm or splade.")]
HITS = 10
"""Passages that are printed for one query."""


def prepare(
    format: Annotated[str, typer.Option(help=f"{listed(Format, 'python-docs')}.")],
    input: Annotated[list[str], typer.Option(help="A file or folder; may be repeated.")],
    out: Out,
    errors: Annotated[
        str, typer.Option(help="Bytes that are not UTF-8: strict refuses, replace makes U+FFFD.")
    ] = "strict",
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Read a collection's files as passages and check their ids; documents are split."""
    from raypipe.driver.verbs.single_stage import recipe_of, split_of

    paths = input
    if format != "ir-datasets":
        paths = [path if "://" in path else str(Path(path).absolute()) for path in input]
    keys = {"collection": {"format": format, "input": paths, "errors": errors}}
    keys["collection"] |= split_of(format)
    run_stages(recipe_of(keys, {}), out, as_json, allow_open_cluster, (inline, ray))


def tokenize(
    collection: Collection,
    model: Model,
    out: Out,
    preset: Preset = None,
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Split a collection's passages into word pieces."""
    from raypipe.driver.verbs.single_stage import MODEL, collection_of, model_of, recipe_of

    recipe = recipe_of(collection_of(collection), {}, models=model_of(model, preset))
    run_stages(recipe, out, as_json, allow_open_cluster, (inline, ray), tokens_of=MODEL)


def encode(
    collection: Collection,
    model: Model,
    out: Out,
    preset: Preset = None,
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Compute the embeddings of a collection."""
    from raypipe.driver.verbs.single_stage import MODEL, collection_of, model_of, recipe_of

    stages = {"embeddings": {"do": "encode", "model": MODEL}}
    recipe = recipe_of(collection_of(collection), stages, models=model_of(model, preset))
    run_stages(recipe, out, as_json, allow_open_cluster, (inline, ray))


def index(
    collection: Collection,
    out: Out,
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Build a Lucene index of a collection."""
    from raypipe.driver.verbs.single_stage import collection_of, recipe_of

    run_stages(
        recipe_of(collection_of(collection), {"lucene": {"do": "index"}}),
        out,
        as_json,
        allow_open_cluster,
        (inline, ray),
    )


def search(
    index: Annotated[Path, typer.Option(help="A workspace with an index or embeddings.")],
    queries: Annotated[Path | None, typer.Option(help="A queries file, with --out.")] = None,
    query: Annotated[
        str | None, typer.Option(help="A query's text in place of a file: prints its passages.")
    ] = None,
    out: OutOrNone = None,
    model: Annotated[
        str | None, typer.Option(help="Which model or stage, if the workspace has several.")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help=f"Passages for each query; default {DEPTH}, {HITS} for --query.", min=1),
    ] = None,
    k1: Annotated[float | None, typer.Option(help=f"BM25's k1; default {BM25_K1}.")] = None,
    b: Annotated[float | None, typer.Option(help=f"BM25's b; default {BM25_B}.")] = None,
    generation: FromGeneration = None,
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Find the best passages for each query: runs/queries/search.trec, or on stdout."""
    if query is not None:
        given = {"--queries": queries, "--out": out, "--inline": inline, "--ray": ray}
        extra = [flag for flag, value in given.items() if value]
        if extra:
            raise InputError([f"{flag}: not with --query, which writes no file" for flag in extra])
        _print_hits(index, query, model, depth or HITS, k1, b, generation, as_json)
        return
    if queries is None or out is None:
        raise InputError("search: expected --queries FILE and --out DIR, or --query TEXT")
    from raypipe.driver.upkeep.status import generation_to_read
    from raypipe.driver.verbs.single_stage import search_recipe

    recipe = search_recipe(index, queries, model=model, depth=depth or DEPTH, k1=k1, b=b)
    reading = generation_to_read(index, generation)
    run_stages(recipe, out, as_json, allow_open_cluster, (inline, ray), reading=reading)


def _print_hits(
    index: Path,
    query: str,
    model: str | None,
    depth: int,
    k1: float | None,
    b: float | None,
    generation: int | None,
    as_json: bool,
) -> None:
    from raypipe.api.workspace import open_index
    from raypipe.driver.verbs.single_stage import stage_to_search

    stage = stage_to_search(index, model)
    with open_index(index, generation) as opened:
        run = opened.search([query], stage, depth=depth, k1=k1, b=b)
        rows = run.select(["rank", "passage_id", "score"]).to_pylist()
        texts = opened.passages(run["passage_id"]) if rows else {}
    hits = [{**hit, "text": texts[hit["passage_id"]]} for hit in rows]
    print_result({"query": query, "hits": hits}, text_of_hits(query, hits), as_json=as_json)


def fuse(
    runs: Annotated[
        list[Path],
        typer.Option(help="A run file; give this option two times or more, or once to cut a run."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder of the files; created if new.")],
    method: Annotated[
        str | None, typer.Option(help=f"{listed(FusionMethod)}; not for one run.")
    ] = None,
    weights: Annotated[
        list[float] | None,
        typer.Option(
            help="For weighted: one for each run, in their order, this option as often as --runs; "
            "equal by default."
        ),
    ] = None,
    k: Annotated[
        float | None, typer.Option(help=f"The constant of rrf; default {RRF_K:g}.")
    ] = None,
    depth: Annotated[int, typer.Option(help="Passages for each query.", min=1)] = DEPTH,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Combine run files into one, or cut one at its depth: fused.trec in the folder."""
    from raypipe.driver.verbs.fuse_files import fuse_files

    refuse_missing(*runs)
    counts = fuse_files(
        runs,
        method=method,
        depth=depth,
        out=out,
        weights=weights or None,
        k=k,
        break_ties=break_ties,
    )
    text = f"{counts['queries']} queries, {counts['lines']} lines: {out}/fused.trec"
    print_result(counts, text, as_json=as_json)


def export(
    store: Annotated[
        str, typer.Argument(help="STORES/NAME or STORES/NAME/FINGERPRINT; STORES may be a bucket.")
    ],
    to: Annotated[str, typer.Option(help="numpy, faiss, pyserini or parquet.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder.")],
    generation: FromGeneration = None,
    model: Annotated[
        str | None, typer.Option(help="Of a sparse model's impacts: the model they are of.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a finished store as files that other tools read."""
    from raypipe.driver.upkeep.export import export as exported

    num_rows = exported(store, to, out, generation=generation, model=model)
    print_result({"rows": num_rows, "out": str(out)}, f"{num_rows:,} rows: {out}", as_json=as_json)


def run_stages(
    recipe: "Recipe",
    out: Path,
    as_json: bool,
    allow_open_cluster: bool,
    flags: tuple[bool, bool],
    *,
    tokens_of: str | None = None,
    reading: tuple[str, int | None] | None = None,
) -> None:
    """Run a recipe of single stages in a workspace, here or on Ray; `flags` are --inline, --ray."""
    import os

    from raypipe.cli.pipeline import execute
    from raypipe.driver.pipeline import Options
    from raypipe.driver.verbs.where import where

    inline, why = where(recipe, inline=flags[0], ray=flags[1])

    address = os.environ.get("RAY_ADDRESS")
    execute(
        recipe,
        out,
        Options(
            single=True,
            tokens_of=tokens_of,
            reading=reading,
            ray_address=address,
            allow_open_cluster=allow_open_cluster,
            inline=inline,
            why=why,
        ),
        as_json=as_json,
    )


def score(
    run: Annotated[
        Path,
        typer.Option(
            help="A run file in any form, or a table of query_id and passage_id (Parquet, CSV)."
        ),
    ],
    collection: Collection,
    queries: Annotated[Path, typer.Option(help="A queries file.")],
    model: Annotated[
        str,
        typer.Option(
            help="A reranker (monoBERT, duoBERT, monoT5, duoT5): a folder, a name on a hub, "
            "general-mono; for Python's documentation minilm-mono, minilm-duo."
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
    from raypipe.driver.progress import to_stderr
    from raypipe.driver.upkeep.status import generation_to_read
    from raypipe.driver.verbs.single_stage import model_of, score_recipe, with_commit
    from raypipe.models.folder.model_folder import measurements, resolve_model

    refuse_missing(run, collection, queries, qrels)
    keys, folder = with_commit(model_of(model, preset), out, to_stderr)
    opened = resolve_model(folder, preset)
    kind = opened.reranker.kind
    if (note := measurements(opened)) is not None:
        typer.echo(f"{model}: {note}", err=True)
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
        break_ties=break_ties,
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
