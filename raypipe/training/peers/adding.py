"""Makes an exported model folder open in sentence-transformers with raypipe's numbers."""

import json
from pathlib import Path

from raypipe.models.folder.conventions import AnyConventions
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.opening import layout_of, open_tokenizer
from raypipe.training.peers.files import peer_files


def add_peer_files(folder: Path, conventions: AnyConventions, start: ModelFolder) -> None:
    """Write the files beside the weights, and their part of config.json and tokenizer_config.json.

    Args:
        folder: weights, config.json and tokenizer are there.
        conventions: the settings of the model.
        start: where the training began, whose architecture and tokenizer it has.
    """
    sizes = start.family.files.as_bert(start.config())
    single = layout_of(start, open_tokenizer(start), (0,))
    found = peer_files(conventions, width=sizes["hidden_size"], num_specials=single.num_specials)
    for name, body in found.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(body, indent=2) + "\n")
    _merge(folder / "config.json", found.config)
    if found.longest is not None:
        _merge(folder / "tokenizer_config.json", {"model_max_length": found.longest})


def _merge(file: Path, more: dict[str, object]) -> None:
    if more:
        body = json.loads(file.read_bytes()) if file.exists() else {}
        file.write_text(json.dumps(body | more, indent=2) + "\n")
