"""What follows pooling in a sentence-transformers folder, as an encoder's settings."""

from collections.abc import Sequence
from pathlib import Path

from raypipe.models.folder.evidence import Evidence, read_object
from raypipe.models.folder.parts.layers import EMBEDDING, NORMALISE

SETTINGS = "config_sentence_transformers.json"


def read_finishing(folder: Path, modules: Sequence[tuple[str, str]], found: Evidence) -> None:
    """Read dense layers, normalisation and `truncate_dim`, and refuse other similarities.

    Args:
        folder: the model's.
        modules: (Dense or Normalize, folder) of what follows Pooling, in order.
        found: is added to.
    """
    for name, place in modules:
        _check_reads_vectors(folder / place, name, found)
    names = [name for name, _ in modules]
    normalise = names[-1:] == ["Normalize"]
    where = "modules.json: Normalize" if normalise else "modules.json: no Normalize at the end"
    found.add(where if "Normalize" in names else "modules.json: no Normalize", normalise=normalise)
    steps = [place if name == "Dense" else NORMALISE for name, place in modules]
    steps = steps[:-1] if normalise else steps
    if steps:
        found.add("modules.json", dense=tuple(steps))
    settings = read_object(folder / SETTINGS)
    if settings.get("truncate_dim") is not None:
        found.add(f"{SETTINGS} truncate_dim", truncate_dim=settings["truncate_dim"])
    if normalise and "truncate_dim" in found.values:
        found.notes.append(
            "embeddings are cut and then normalised; sentence-transformers' encode normalises "
            "first: its embeddings are these if it is called with normalize_embeddings=True"
        )
    stated = settings.get("similarity_fn_name")
    if stated == "cosine" and not normalise:
        found.notes.append(
            "scores are inner products of embeddings as encode gives them; "
            f"{SETTINGS} says similarity_fn_name cosine: to rank by it, put "
            '"normalise": true in raypipe.json'
        )
    if stated not in (None, "cosine", "dot"):
        found.refusals.append(
            f"{folder / SETTINGS}: similarity_fn_name: expected cosine or dot, found {stated}"
        )


def _check_reads_vectors(place: Path, name: str, found: Evidence) -> None:
    """Refuse a Normalize of tokens' states, which are pooled before all this."""
    stated = read_object(place / "config.json") if name == "Normalize" else {}
    for key in ("module_input_name", "module_output_name"):
        if stated.get(key) not in (None, EMBEDDING):
            found.refusals.append(
                f"{place / 'config.json'}: {key}: expected {EMBEDDING}, found {stated[key]!r}"
            )
