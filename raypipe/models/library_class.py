"""The class of sentence-transformers that opens a folder, as its files and settings state it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from raypipe.errors import InputError
from raypipe.models.folder.adapters import CONFIG, MERGED
from raypipe.models.folder.files import (
    OWN_CODE,
    quantised_problems,
    read_object,
    stranger_problems,
)
from raypipe.models.folder.modules import LATE, ModelFiles
from raypipe.models.folder.sentence_transformers import POOLINGS as OWN_POOLINGS
from raypipe.models.folder.settings import DOCUMENTED, OF_WORDS

PROMPTED = "Prompted"
"""A T5 that reads a prompt: the one class that is not the library's; see `prompted`."""
LATE_CLASS = "MultiVectorEncoder"
CLASSES = {
    "SentenceTransformer": "encoder",
    "SparseEncoder": "encoder",
    "CrossEncoder": "mono",
    LATE_CLASS: "mono",
    PROMPTED: "mono",
}
"""The kind of model by the class that opens it."""
POOLINGS = {own: word for word, own in OWN_POOLINGS.items()}
"""The library's word by raypipe's, for a transformer alone."""
METADATA = "artifact.metadata"


def class_of(files: ModelFiles, settings: Mapping[str, Any]) -> str:
    """The class that opens the folder; nothing is guessed.

    Raises:
        InputError: nothing says it, the folder asks for code of its own or for files of another
            folder, its number of labels is none, or its weights are quantised.
    """
    config, folder = files.config, files.folder
    if "auto_map" in files.read("tokenizer_config.json"):
        raise InputError(f"{folder}: {OWN_CODE}")
    _refuse_elsewhere(files)
    problems = [f"{folder / 'config.json'}: {problem}" for problem in stranger_problems(config)]
    if problems := problems + quantised_problems(folder, config):
        raise InputError(problems)
    stated = str(files.settings.get("model_type"))
    stated = LATE_CLASS if stated in LATE else stated
    modules = [name for name, _ in files.modules]
    names = str(config.get("architectures"))
    pooling, kind = settings.get("pooling"), settings.get("kind")
    rules = (
        (PROMPTED, settings.get("prompt")),
        (stated, stated in CLASSES and (modules or stated == "CrossEncoder")),
        ("SparseEncoder", "SpladePooling" in modules),
        ("SentenceTransformer", modules not in ([], ["Transformer"]) or pooling in [*POOLINGS]),
        ("SparseEncoder", pooling in OF_WORDS),
        (LATE_CLASS, "HF_ColBERT" in names),
        ("CrossEncoder", "ForSequenceClassification" in names or kind == "mono"),
    )
    class_name = next((str(name) for name, applies in rules if applies), None)
    if kind == "pretrained" or (kind == "duo" and class_name != PROMPTED):
        raise InputError(
            f"{folder}: kind {kind}: expected a BERT or a relative of it that raypipe computes "
            f"itself, found one of model_type {config.get('model_type')!r} that it does not; "
            "`raypipe model show FOLDER` says why; name a BERT"
        )
    if class_name is None:
        raise InputError(f"{folder}: {_unknown(config, names)}; {DOCUMENTED}")
    if class_name == LATE_CLASS and not modules and not (folder / METADATA).exists():
        raise InputError(
            f"{folder}: expected {METADATA}, which has the markers and lengths of an HF_ColBERT, "
            "found none; put it beside the weights"
        )
    return class_name


def _unknown(config: Mapping[str, Any], names: str) -> str:
    """The sentence on a folder whose use nothing states."""
    kind = config.get("model_type")
    if kind in ("t5", "mt5"):
        return (
            f"model_type {kind} scores a prompt, which nothing states: name the preset monot5 or "
            "duot5, or put kind, prompt, answers, relevant_label, score and limits in a "
            "raypipe.json; an encoder such as GTR has a modules.json"
        )
    of_decoder = '; a decoder that scores, such as Qwen3-Reranker, needs {"kind": "mono"}'
    return (
        f"nothing says what this model of type {kind!r} is for: expected modules.json, an "
        "architecture that ends in ForSequenceClassification, or a raypipe.json with pooling "
        f"(mean, cls, max, last or splade) or kind mono, found neither"
        f"{of_decoder if 'ForCausalLM' in names else ''}"
    )


def _refuse_elsewhere(files: ModelFiles) -> None:
    """Returns nothing if no file names another place for a part of the model, which no hash would
    cover: a tokenizer, or an adapter's base.

    Raises:
        InputError: one does.
    """
    modules = chain(files.listed, *files.routes.values())
    for place in sorted({files.folder, *(files.folder / place for _, place in modules)}):
        if (place / CONFIG).exists():
            raise InputError(
                f"{place}: expected a whole model, found an adapter ({CONFIG}), whose base lies "
                f"elsewhere; remove that file from merged weights, or merge it: {MERGED}"
            )
        for file in sorted(place.glob("sentence_*_config.json")):
            for key in ("tokenizer_name_or_path", "model_name_or_path"):
                if read_object(file).get(key) is not None:
                    raise InputError(
                        f"{file}: {key}: expected none, found another place for a part of the "
                        "model; put the part into this folder and remove the key"
                    )
