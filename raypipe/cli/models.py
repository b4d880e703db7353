"""The commands train and model."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypipe.cli.options import AsJson, OpenCluster, Out, RecipeName, Verbose
from raypipe.cli.terminal import print_result
from raypipe.config.load import named_training
from raypipe.config.phases import PhasedTraining
from raypipe.config.training import Training
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.driver.training.place import TrainOptions
    from raypipe.driver.training.train import Trained
    from raypipe.models.convert.describe import Description


def train(
    recipe: RecipeName,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changed settings, such as steps=1000.")
    ] = None,
    out: Out = Path("raypipe-train"),
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune an encoder, a monoBERT or a duoBERT model, or pre-train; again to resume."""
    from raypipe.driver.training.place import TrainOptions

    options = TrainOptions(
        ray_address=os.environ.get("RAY_ADDRESS"), allow_open_cluster=allow_open_cluster
    )
    named = named_training(recipe, overrides=overrides or [], env=os.environ)
    trained = execute_training(named, out, options)
    print_result(trained.summary, trained.table.trimmed(), as_json=as_json)
    tell_model(trained)


def execute_training(
    recipe: Training | PhasedTraining, out: Path, options: "TrainOptions | None" = None
) -> "Trained":
    """Train with progress on stderr."""
    from raypipe.driver.progress import TerminalWatcher, to_stderr
    from raypipe.driver.training.train import run_training

    with TerminalWatcher(sys.stderr) as watcher:
        return run_training(recipe, out, options, watcher=watcher, say=to_stderr)


def tell_model(trained: "Trained") -> None:
    """Where the trained model is, as the last line of the command."""
    from raypipe.driver.progress import to_stderr

    to_stderr(f"model: {trained.model}")


Preset = Annotated[str | None, typer.Option(help="Settings by name: repbert, monobert, ...")]
DETAILS = (
    *("architectures", "heads", "vocabulary", "tokenizer", "tokenizer sha256", "pieces"),
    *("weights", "weights sha256", "bytes", "dtypes", "tensors", "segment rows"),
)
"""Rows that `model show` prints only with -v."""
LISTED = 20
"""Number of tensor names shown; the others are counted."""


group = typer.Typer(
    no_args_is_help=True, help="Show a model folder, or make one from a checkpoint."
)


@group.command()
def show(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A model folder, minilm, or a hub's name.")
    ],
    preset: Preset = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Print a model folder's settings, their sources, its weights and the proof that raypipe
    computes what its library does; exits with 2 if unusable."""
    from raypipe.config.parts import PACKAGED_MODELS
    from raypipe.driver.progress import to_stderr
    from raypipe.driver.proof.proof import shown_proof
    from raypipe.models.convert.describe import describe
    from raypipe.uris import hub_name

    named = None if path in PACKAGED_MODELS else hub_name(path, Path())
    if named is not None:
        from raypipe.models.hub import pinned, snapshot_of

        path = str(snapshot_of(pinned(named)))
    description = describe(path, preset)
    if not description.problems:
        description.proof, description.problems = shown_proof(path, preset, to_stderr)
    print(
        json.dumps(asdict(description)) if as_json else "\n".join(_lines(description, verbose)),
        flush=True,
    )
    if description.problems:
        raise InputError(description.problems)


@group.command()
def convert(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A folder, or a .bin, .pt, .npz or .safetensors file."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to make.")],
    preset: Preset = None,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder with its tokenizer.")
    ] = None,
    segment_row: Annotated[
        str | None,
        typer.Option(help="duoBERT's third segment row if the checkpoint has two: zero or copy."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn a checkpoint into a model folder; no code in a pickle is run."""
    from raypipe.models.convert.convert import convert as converted

    made = converted(path, out, preset=preset, tokenizer=tokenizer, segment_row=segment_row)
    if as_json:
        body = {"folder": str(out), "conventions": asdict(made.conventions), **made.record}
        print(json.dumps({**body, "notes": made.notes}))
        return
    record = made.record
    rows = [("folder", str(out)), ("kind", made.conventions.kind)]
    rows += [("from", f"{f['file']} ({f['format']}, {f['sha256'][:12]})") for f in record["files"]]
    rows.append(("left out", _names(record["left_out"])))
    if record["segment_row"]:
        rows.append(("segment row 2", record["segment_row"]["from"]))
    rows += [("note", note) for note in made.notes]
    print("\n".join(f"{name:14} {value}" for name, value in rows))


def _lines(description: "Description", verbose: bool) -> list[str]:
    rows: list[tuple[str, str]] = [
        ("folder", description.folder),
        ("kind", description.kind or "not known"),
    ]
    conventions, sources = description.conventions or {}, description.sources or {}
    rows += [
        (name, f"{_shown(value)}  ({sources[name]})")
        for name, value in conventions.items()
        if name != "kind"
    ]
    rows += [(name, _shown(value)) for name, value in description.architecture.items()]
    for part in (description.tokenizer, description.weights):
        facts = part or {}
        rows += [(_label(name, facts), _shown(value)) for name, value in facts.items()]
    for name, names in (("unused", description.unused), ("missing", description.missing)):
        rows.append((name, "not known" if names is None else _names(names)))
    rows += [("training", description.training), ("proof", description.proof)]
    if description.made_by:
        rows.append(("made by", _maker(description.made_by)))
    rows += [("note", note) for note in description.notes]
    return [f"{name:18} {value}" for name, value in rows if verbose or name not in DETAILS]


def _maker(made_by: dict[str, Any]) -> str:
    """The conversion's command, or the training and the step whose weights were chosen."""
    if "recipe" not in made_by:
        return _shown(made_by.get("command"))
    phase = f", phase {made_by['phase']}" if "phase" in made_by else ""
    chosen = f"step {_shown(made_by.get('step'))} of {_shown(made_by.get('steps'))}"
    return f"the training {made_by['recipe']}{phase}, {chosen}"


def _label(name: str, part: dict[str, Any]) -> str:
    """`weights` and `tokenizer` for the files, so that the two hashes can be distinguished."""
    kind = "tokenizer" if "pieces" in part else "weights"
    return {"file": kind, "sha256": f"{kind} sha256"}.get(name, name.replace("_", " "))


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _names(names: list[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - LISTED} more (--json has all)" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
