"""Verbs of one stage; each is a recipe of that stage over a workspace. And export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.config import Recipe

Out = Annotated[Path, typer.Option("--out", help="The workspace: made, or resumed.")]
OpenCluster = Annotated[
    bool, typer.Option("--allow-open-cluster", help="Use a cluster without token authentication.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Collection = Annotated[Path, typer.Option(help="A workspace, a file, or a BEIR folder.")]
Model = Annotated[str, typer.Option(help="A model folder, or minilm.")]
Preset = Annotated[str | None, typer.Option(help="Conventions: repbert or minilm.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    for verb in (prepare, tokenize, encode, index, search, fuse, export):
        app.command()(verb)


def prepare(
    format: Annotated[str, typer.Option(help="msmarco-v1 msmarco-v2 beir pyserini ir-datasets.")],
    input: Annotated[list[str], typer.Option(help="Files and folders; repeat it for more.")],
    out: Out,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Files of a collection as passages with checked ids."""
    from raypipe.driver.verbs.single_stage import recipe_of

    paths = input if format == "ir-datasets" else [str(Path(path).absolute()) for path in input]
    keys = {"collection": {"format": format, "input": paths}}
    run_stages(recipe_of(keys, {}), out, as_json, allow_open_cluster)


def tokenize(
    collection: Collection,
    model: Model,
    out: Out,
    preset: Preset = None,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Word pieces of a collection."""
    from raypipe.driver.verbs.single_stage import MODEL, collection_of, model_of, recipe_of

    recipe = recipe_of(collection_of(collection), {}, models=model_of(model, preset))
    run_stages(recipe, out, as_json, allow_open_cluster, tokens_of=MODEL)


def encode(
    collection: Collection,
    model: Model,
    out: Out,
    preset: Preset = None,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Embeddings of a collection."""
    from raypipe.driver.verbs.single_stage import MODEL, collection_of, model_of, recipe_of

    stages = {"embeddings": {"do": "encode", "model": MODEL}}
    recipe = recipe_of(collection_of(collection), stages, models=model_of(model, preset))
    run_stages(recipe, out, as_json, allow_open_cluster)


def index(
    collection: Collection,
    out: Out,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """A Lucene index of a collection."""
    from raypipe.driver.verbs.single_stage import collection_of, recipe_of

    run_stages(
        recipe_of(collection_of(collection), {"lucene": {"do": "index"}}),
        out,
        as_json,
        allow_open_cluster,
    )


def search(
    index: Annotated[Path, typer.Option(help="A workspace with an index or embeddings.")],
    queries: Annotated[Path, typer.Option(help="A queries file.")],
    out: Out,
    model: Annotated[str | None, typer.Option(help="Which model or stage, of several.")] = None,
    depth: Annotated[int, typer.Option(help="Passages a query.", min=1)] = 1000,
    k1: Annotated[float | None, typer.Option(help="BM25's k1, 0.9 by default.")] = None,
    b: Annotated[float | None, typer.Option(help="BM25's b, 0.4 by default.")] = None,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """The best passages for each query: runs/queries/search.trec and .tsv."""
    from raypipe.driver.verbs.single_stage import search_recipe

    recipe = search_recipe(index, queries, model=model, depth=depth, k1=k1, b=b)
    run_stages(recipe, out, as_json, allow_open_cluster)


def fuse(
    runs: Annotated[list[Path], typer.Option(help="A run file; give it twice or more.")],
    method: Annotated[str, typer.Option(help="alternate, rrf, weighted or average.")],
    out: Out,
    depth: Annotated[int, typer.Option(help="Passages a query.", min=1)] = 1000,
    as_json: AsJson = False,
) -> None:
    """Run files made into one: fused.trec and fused.tsv in the folder."""
    from raypipe.cli.output import print_result
    from raypipe.driver.verbs.fuse_files import fuse_files

    missing = [f"--runs {path}: no such file" for path in runs if not path.exists()]
    if missing:
        raise InputError(missing)
    found = fuse_files(runs, method=method, depth=depth, out=out)
    text = f"{found['queries']} queries, {found['lines']} lines: {out}/fused.trec"
    print_result(found, text, as_json=as_json)


def export(
    store: Annotated[Path, typer.Argument(help="STORES/NAME or STORES/NAME/FINGERPRINT.")],
    to: Annotated[str, typer.Option(help="numpy, faiss, pyserini or parquet.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder.")],
    as_json: AsJson = False,
) -> None:
    """A finished store as files that other tools read."""
    from raypipe.cli.output import print_result
    from raypipe.driver.upkeep.export import export as exported

    num_rows = exported(store, to, out)
    print_result({"rows": num_rows, "out": str(out)}, f"{num_rows:,} rows: {out}", as_json=as_json)


def run_stages(
    recipe: "Recipe",
    out: Path,
    as_json: bool,
    allow_open_cluster: bool,
    *,
    tokens_of: str | None = None,
) -> None:
    """Run a recipe of single stages in a workspace, on the cluster that RAY_ADDRESS names."""
    import os

    from raypipe.cli.pipeline import execute
    from raypipe.driver.pipeline import Options

    address = os.environ.get("RAY_ADDRESS")
    execute(
        recipe,
        out,
        Options(
            tokens_of=tokens_of,
            ray_address=address,
            allow_open_cluster=allow_open_cluster,
        ),
        as_json=as_json,
    )
