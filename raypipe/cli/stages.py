"""Commands for one stage, each a recipe of that stage over a workspace; and export."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from raypipe.cli.options import (
    AsJson,
    Inline,
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
from raypipe.vocabulary import DEPTH, Format, listed

if TYPE_CHECKING:
    from raypipe.driver.verbs.single_stage import SingleStage

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
Preset = Annotated[
    str | None, typer.Option(help="Settings by name: repbert, minilm, splade, monobert, ...")
]
Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Keys of the recipe: a stage's, such as score.tail=drop, or others, such as "
        "resources.device=cpu. `raypipe recipes --keys` lists all.",
    ),
]
KEY = typer.Option()
"""An option that sets the stage's key of its name; the key's own text is its help."""
HITS = 10
"""Passages that are printed for one query."""


class Verb(typer.core.TyperCommand):
    """A command whose options without a help text have that of the stage's key."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """As typer does; the types of recipes are asked for their texts only here."""
        from raypipe.config.keys import text_of_key

        for option in self.params:
            if isinstance(option, typer.core.TyperOption) and option.help is None:
                option.help = text_of_key(str(self.name), option.opts[0].removeprefix("--"))
        super().format_help(ctx, formatter)


def verb(make: "Callable[..., SingleStage | None]") -> Callable[..., None]:
    """The command that runs the stage that `make` returns, if it returns one.

    Its options are those of `make` and of `_run`; options of both are given to both.
    """
    own = inspect.signature(make).parameters
    shared = [*inspect.signature(_run).parameters.values()][1:]

    @wraps(make)
    def command(**options: Any) -> None:
        stage = make(**{name: options[name] for name in own})
        if stage is not None:
            _run(stage, **{each.name: options[each.name] for each in shared})

    added = [each for each in shared if each.name not in own]
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in (*own.values(), *added)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _run(
    stage: "SingleStage",
    out: Out,
    overrides: Keys = None,
    inline: Inline = False,
    ray: OnRay = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Run a recipe of one stage in a workspace, here or on Ray."""
    from raypipe.cli.pipeline import execute
    from raypipe.driver.pipeline import Options
    from raypipe.driver.verbs.single_stage import recipe_of
    from raypipe.driver.verbs.where import where

    recipe = recipe_of(stage.body, overrides or (), os.environ)
    inline, why = where(recipe, inline=inline, ray=ray)
    options = Options(
        single=True,
        tokens_of=stage.tokens_of,
        reading=stage.reading,
        ray_address=os.environ.get("RAY_ADDRESS"),
        allow_open_cluster=allow_open_cluster,
        inline=inline,
        why=why,
    )
    execute(recipe, out, options, as_json=as_json)


@verb
def prepare(
    format: Annotated[str, typer.Option(help=f"{listed(Format, 'python-docs')}.")],
    input: Annotated[list[str], typer.Option(help="A file or folder; may be repeated.")],
) -> "SingleStage":
    """Read a collection's files as passages and check their ids; documents are split."""
    from raypipe.driver.verbs.single_stage import SingleStage, files_of

    return SingleStage(files_of(format, input))


@verb
def tokenize(collection: Collection, model: Model, preset: Preset = None) -> "SingleStage":
    """Split a collection's passages into word pieces."""
    from raypipe.driver.verbs.single_stage import MODEL, SingleStage, collection_of, model_of

    return SingleStage({**collection_of(collection), **model_of(model, preset)}, tokens_of=MODEL)


@verb
def encode(collection: Collection, model: Model, preset: Preset = None) -> "SingleStage":
    """Compute the embeddings of a collection."""
    from raypipe.driver.verbs.single_stage import MODEL, SingleStage, collection_of, model_of

    stages = {"embeddings": {"do": "encode", "model": MODEL}}
    return SingleStage({**collection_of(collection), **model_of(model, preset), "stages": stages})


@verb
def index(collection: Collection) -> "SingleStage":
    """Build a Lucene index of a collection."""
    from raypipe.driver.verbs.single_stage import SingleStage, collection_of

    return SingleStage({**collection_of(collection), "stages": {"lucene": {"do": "index"}}})


@verb
def search(
    index: Annotated[Path, typer.Option(help="A workspace with an index or embeddings.")],
    queries: Annotated[Path | None, typer.Option(help="A queries file, with --out.")] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help=f"A query's text in place of a file: prints its {HITS} best passages, or --depth."
        ),
    ] = None,
    out: OutOrNone = None,
    model: Annotated[
        str | None, typer.Option(help="Which model or stage, if the workspace has several.")
    ] = None,
    depth: Annotated[int | None, KEY] = None,
    k1: Annotated[float | None, typer.Option("--bm25.k1")] = None,
    b: Annotated[float | None, typer.Option("--bm25.b")] = None,
    generation: FromGeneration = None,
    overrides: Keys = None,
    inline: Inline = False,
    ray: OnRay = False,
    as_json: AsJson = False,
) -> "SingleStage | None":
    """Find the best passages for each query: runs/queries/search.trec, or on stdout."""
    if query is not None:
        files = {"--queries": queries, "--out": out, "--inline": inline, "--ray": ray}
        extra = [flag for flag, value in files.items() if value] + [*(overrides or ())]
        if extra:
            raise InputError([f"{flag}: not with --query, which writes no file" for flag in extra])
        num = HITS if depth is None else depth
        _print_hits(index, query, model, num, k1, b, generation, as_json)
        return None
    if queries is None or out is None:
        raise InputError("search: expected --queries FILE and --out DIR, or --query TEXT")
    from raypipe.driver.upkeep.status import generation_to_read
    from raypipe.driver.verbs.single_stage import SingleStage, search_stage, set_keys

    bm25 = set_keys(k1=k1, b=b) or None
    body = search_stage(index, queries, model, depth=depth, bm25=bm25)
    return SingleStage(body, reading=generation_to_read(index, generation))


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


@verb
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
    preset: Preset = None,
    k0: Annotated[int | None, KEY] = None,
    k1: Annotated[int | None, KEY] = None,
    blend: Annotated[float | None, KEY] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgements, to measure the new run.")] = None,
    generation: FromGeneration = None,
) -> "SingleStage":
    """Score a run's candidates: monoBERT writes runs/queries/score.trec, duoBERT its pairs."""
    from raypipe.driver.progress import to_stderr
    from raypipe.driver.upkeep.status import generation_to_read
    from raypipe.driver.verbs.single_stage import (
        SingleStage,
        opened_reranker,
        score_stage,
        set_keys,
    )

    refuse_missing(run, collection, queries, qrels)
    pinned, defaults = opened_reranker(model, preset, out, to_stderr)
    candidates = set_keys(k0=k0, k1=k1) or defaults
    body = score_stage(run, collection, queries, pinned, qrels, **candidates, blend=blend)
    return SingleStage(body, reading=generation_to_read(collection, generation))


@verb
def aggregate(
    pairs: Annotated[
        Path, typer.Option(help="The workspace of `raypipe score` with a duoBERT model.")
    ],
    method: Annotated[str, KEY],
    k1: Annotated[int | None, KEY] = None,
) -> "SingleStage":
    """Turn duoBERT's pairs into a run: runs/SET/METHOD.trec."""
    from raypipe.driver.verbs.single_stage import SingleStage, aggregate_stage

    return SingleStage(aggregate_stage(pairs, method, k1=k1))


def fuse(
    runs: Annotated[
        list[Path],
        typer.Option(help="A run file; give this option two times or more, or once to cut a run."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder of the files; created if new.")],
    method: Annotated[str | None, KEY] = None,
    weights: Annotated[list[float] | None, KEY] = None,
    k: Annotated[float | None, KEY] = None,
    depth: Annotated[int | None, KEY] = None,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Combine run files into one, or cut one at its depth: fused.trec in the folder."""
    from raypipe.driver.verbs.fuse_files import fuse_files

    refuse_missing(*runs)
    counts = fuse_files(
        runs,
        method=method,
        depth=DEPTH if depth is None else depth,
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
    since: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of embeddings: only what changed since this generation; 0 is everything."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Of a sparse model's impacts: the model they are of.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a finished store as files that other tools read."""
    from raypipe.driver.upkeep.export import export as exported

    if since is not None:
        if to != "parquet" or model is not None:
            raise InputError(f"--since {since}: what changed leaves with --to parquet alone")
        _export_since(store, out, since, generation, as_json=as_json)
        return
    num_rows = exported(store, to, out, generation=generation, model=model)
    print_result({"rows": num_rows, "out": str(out)}, f"{num_rows:,} rows: {out}", as_json=as_json)


def _export_since(
    store: str, out: Path, since: int, generation: int | None, *, as_json: bool
) -> None:
    from raypipe.driver.upkeep.delta import export_delta

    manifest = export_delta(store, since, out, generation=generation)
    text = (
        f"generation {since} to {manifest['generation']}: {manifest['upserts']:,} upserts, "
        f"{manifest['deletes']:,} deletes: {out}"
    )
    print_result({**manifest, "out": str(out)}, text, as_json=as_json)


BM25 = "--bm25.k1 and --bm25.b are BM25's parameters; k0 and k1 are the candidates of rerankers"
CANDIDATES = "write --k0 with a monoBERT model, and --k1 with a duoBERT model"
FORMER = {
    ("prepare", "--errors"): "collection.errors",
    ("search", "--k1"): BM25,
    ("search", "--b"): BM25,
    ("score", "--depth"): CANDIDATES,
    ("score", "--measures"): "evaluate.measures",
    ("score", "--break-ties"): "run.break_ties",
}
"""(Command, option that it has not) -> the key in its place, or a sentence."""


def in_place_of(command: str, option: str) -> str | None:
    """The key that does what an unknown option of a command says, in a sentence; None if none."""
    from raypipe.config.keys import has_key

    key = FORMER.get((command, option))
    name = option.removeprefix("--").replace("-", "_")
    if key is None and has_key(command, name):
        key = f"{'METHOD' if command == 'aggregate' else command}.{name}"
    return key if key is None or " " in key else f"write {key}=VALUE in its place"
