"""`raypipe init`: a recipe for the files that a user has, written after a look at them."""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.config.load import load_recipe, recipe_text
from raypipe.config.parts import PACKAGED_MODELS
from raypipe.config.yaml import parse_yaml
from raypipe.data.formats.registry import format_of
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.recipe.collection import unread
from raypipe.driver.recipe.fit import fit_of_files
from raypipe.driver.recipe.read_first import collection_problems, read_first
from raypipe.driver.verbs.single_stage import split_of
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.hub import pinned, snapshot_of
from raypipe.storage.files import replace_file
from raypipe.uris import dataset_id, hub_name, in_bucket

log = logging.getLogger(__name__)

MODELS = ("minilm",)
"""The encoder that comes with raypipe."""
K0, K1 = 35, 10
"""How many candidates a reranker has, as in the recipe `english`."""
FUSED = "fused"
"""The run of BM25 and the encoders, the last one without a reranker."""
NAME_LENGTH = 40
"""Longest name of a model: names of stages begin with it, and have room for 64 characters."""


def write_recipe(
    passages: str, queries: str, qrels: str | None, models: Sequence[str], out: Path
) -> str:
    """The text of the recipe that was written to `out`, which runs as it is.

    BM25, a dense search with each encoder, their fusion, and each reranker over the stage above it;
    without one, the reranker in comments of the recipe `english`. Documents are split, and ranked
    by their best passages.

    Raises:
        InputError: `out` is there; a file is in no form that is read; the judgements are of other
            queries or passages; or a model neither encodes nor scores.
    """
    if os.path.lexists(out):
        raise InputError(f"{out}: it is there already; name another file with --recipe")
    for place in filter(None, (passages, queries, qrels)):
        if in_bucket(place):
            raise InputError(f"{place}: init looks at files of this machine; name a local copy")
    text = _text(passages, queries, qrels, models, out)
    recipe = load_recipe(text, base=out.parent, source=str(out))
    unfit = fit_of_files(recipe, read_first(recipe, collection_problems(recipe)))
    command, rest = text.split("\n", 1)
    text = "\n".join([command, *(f"# {line}" for line in unfit), rest])
    for line in unread(recipe.collection):
        log.warning("%s", line)
    replace_file(out, text.encode())
    return text


def _text(passages: str, queries: str, qrels: str | None, models: Sequence[str], out: Path) -> str:
    dataset = dataset_id(passages)
    form = "ir-datasets" if dataset is not None else format_of(Path(passages), documents=True)
    split = ", split: {}" if split_of(form) else ""
    where = dataset or _place(passages, out)
    num_queries = sum(1 for _ in read_queries(Path(queries)))
    judged, comment = "", f"{num_queries:,} queries"
    if qrels is not None:
        key = "document_qrels" if split else "qrels"
        judged = f", {key}: {_place(qrels, out)}, only_judged: true"
        comment += f", {read_qrels(Path(qrels)).num_rows:,} judgements"
    kinds = {name: (model, _kind(model)) for name, model in _named(models).items()}
    stages, last = _stages(kinds)
    baseline = "bm25"
    if split:
        runs = {baseline: "  ", last: "  "}
        if last == FUSED:
            runs |= dict.fromkeys(("mono", "duo-sum"), "  # ")
        for run, begins in runs.items():
            stage = f"{begins}{run}-documents: {{do: documents, run: {run}, method: maxp}}"
            stages.append((stage, "documents by their best passages"))
        baseline = f"{baseline}-documents"
    lines = [
        ("format: 1", ""),
        (f"name: {_name(out.name)}", ""),
        (f"collection: {{format: {form}, input: {where}{split}}}", "as the files were recognised"),
        ("queries:", comment),
        (f"  queries: {{file: {_place(queries, out)}{judged}}}", ""),
        *([("models:", "")] if kinds else []),
        *((f"  {name}: {{path: {_model(path, out)}}}", "") for name, (path, _) in kinds.items()),
        *(_commented("models") if last == FUSED else []),
        ("stages:", "a stage names its run"),
        *stages,
    ]
    if qrels is not None:
        measures = "measures: [nDCG@10, RR@10, R@100]"
        lines.append((f"evaluate: {{{measures}, baseline: {baseline}}}", ""))
    commented = (f"{code:{COLUMN}}  # {said}" if said else code for code, said in lines)
    return "\n".join([f"# raypipe pipeline {out.name} --out work", *commented, ""])


COLUMN = 56
"""Where comments begin, behind lines that are not longer."""


def _stages(models: Mapping[str, tuple[str, str]]) -> tuple[list[tuple[str, str]], str]:
    """The lines of the stages, each with its comment, and the name of the last run.

    Weights are those of the recipe `english`, and so are the lines in comments.

    Args:
        models: name -> (model, its kind).
    """
    both = parse_yaml(recipe_text("english"), origin=str).data["stages"]["fused"]["weights"]
    lines = [
        ("  lucene: {do: index}", "BM25's index"),
        ("  bm25: {do: search, index: lucene}", "the best 1,000 passages of each query"),
    ]
    runs = ["bm25"]
    for name in (name for name, (_, kind) in models.items() if kind == "encoder"):
        vectors = f"{name}-vectors"
        lines.append((f"  {vectors}: {{do: encode, model: {name}}}", "an embedding a passage"))
        lines.append((f"  {name}: {{do: search, index: {vectors}}}", "by inner product, exact"))
        runs.append(name)
    last = runs[-1]
    if len(runs) > 1:
        last = FUSED
        weights = ", ".join(map(str, [both[0], *both[1:] * (len(runs) - 1)]))
        method = f"method: weighted, weights: [{weights}]"
        fuse = f"  fused: {{do: fuse, runs: [{', '.join(runs)}], {method}}}"
        lines.append((fuse, "their sum"))
    for name in (name for name, (_, kind) in models.items() if kind == "mono"):
        score = f"  {name}: {{do: score, run: {last}, model: {name}, k0: {K0}}}"
        lines.append((score, "a monoBERT model"))
        last = name
    for name in (name for name, (_, kind) in models.items() if kind == "duo"):
        score = f"  {name}: {{do: score, run: {last}, model: {name}, k1: {K1}}}"
        lines.append((score, f"duoBERT over all pairs of the first {K1}"))
        lines.append((f"  {name}-sum: {{do: aggregate, pairs: {name}, method: sum}}", "its run"))
        last = f"{name}-sum"
    if last == FUSED:
        lines += _commented("stages")
    return lines, last


def _commented(part: str) -> list[tuple[str, str]]:
    """The lines in comments of `english` below models or stages, each with what it says."""
    (block,) = re.findall(rf"^{part}:\n((?: .*\n)+)", recipe_text("english"), re.MULTILINE)
    return re.findall(r"^(  # .*\}) +# (.*)$", block, re.MULTILINE)


def _named(models: Sequence[str]) -> dict[str, str]:
    """Name in the recipe -> model; a name that a stage or an earlier model has gets a number."""
    models_by_name: dict[str, str] = {}
    taken = {"lucene", *_stages_named("bm25"), *_stages_named("fused")}
    for model in dict.fromkeys(models):
        name = free = _name(model)
        number = 2
        while taken & _stages_named(free):
            free, number = f"{name}-{number}", number + 1
        taken |= _stages_named(free)
        models_by_name[free] = model
    return models_by_name


def _stages_named(name: str) -> set[str]:
    """The names of stages that a model or a run of this name may bring."""
    return {name, f"{name}-vectors", f"{name}-sum", f"{name}-documents", f"{name}-sum-documents"}


def _kind(model: str) -> str:
    """encoder, mono or duo."""
    named = None if model in PACKAGED_MODELS else hub_name(model, Path())
    path = model if named is None else str(snapshot_of(pinned(named)))
    kind = resolve_model(path).conventions.kind
    if kind not in ("encoder", "mono", "duo"):
        raise InputError(
            f"--models {model}: it is of kind {kind}; expected one that encodes or scores"
        )
    return kind


def _place(path: str, out: Path) -> str:
    """As the recipe's folder sees it; `irds:ID` as it is."""
    if dataset_id(path) is not None:
        return path
    full, base = Path(os.path.abspath(path)), Path(os.path.abspath(out)).parent
    inside = full.relative_to(base) if full.is_relative_to(base) else full
    return _quoted(str(inside))


def _model(path: str, out: Path) -> str:
    if path in PACKAGED_MODELS or hub_name(path, Path()) is not None:
        return _quoted(path)
    place = _place(path, out)
    return f"./{place}" if place in PACKAGED_MODELS else place  # a folder of that name


def _quoted(text: str) -> str:
    """The text as YAML has it between braces."""
    plain = re.fullmatch(r"[\w./@+-]+", text) is not None and _is_text(text)
    return text if plain else "'" + text.replace("'", "''").replace("${", "$${") + "'"


def _name(path: str) -> str:
    """A name of a recipe's part: the file's, in lower-case letters, digits and hyphens.

    `my-` begins one that a recipe's reader would take for something else than text.
    """
    stem = re.split("[.@]", Path(path).name)[0].lower()
    name = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:NAME_LENGTH] or "mine"
    return name if _is_text(name) else f"my-{name}"


def _is_text(text: str) -> bool:
    """Whether a recipe's reader takes it for this text, and not for a number, say."""
    return bool(parse_yaml(f"key: {text}", origin=str).data["key"] == text)
