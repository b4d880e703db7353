"""Models are folders: no name is looked up elsewhere, and no code in a folder is run."""

import json
import shutil
import socket

import pytest

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder

REMOTE = [
    "bert-base-uncased",
    "castorini/monobert-large-msmarco",
    "hf://a/b",
    "https://a.example/m",
]


@pytest.fixture
def asked(monkeypatch):
    """Whom this process wanted to reach."""
    found = []

    def refuse(*given, **named):
        found.append(given)
        raise OSError("no network")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    return found


@pytest.mark.fault(38, "4 of 4 remote names without a commit are refused; 0 connections")
@pytest.mark.parametrize("name", REMOTE)
def test_a_remote_name_is_no_model_and_nobody_is_asked(asked, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such model folder|expected hf://OWNER/NAME@COMMIT"):
        resolve_model(name)
    assert asked == []


@pytest.mark.fault(
    38, "2 of 2 folders with code of their own have it not run: a model's is refused; 0 connections"
)
def test_code_of_a_folder_is_not_run(asked, tiny_model, tmp_path):
    names = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}
    names |= {"AutoTokenizer": ["evil.Tokenizer", None]}
    folders = {name: tmp_path / name for name in ("config.json", "tokenizer_config.json")}
    for name, folder in folders.items():
        shutil.copytree(tiny_model, folder)
        (folder / "evil.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
        path = folder / name
        body = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(body | {"auto_map": names}))
    with pytest.raises(InputError) as caught:
        resolve_model(str(folders["config.json"]))
    (problem,) = caught.value.problems
    assert problem.startswith(
        f"{folders['config.json']}/config.json: auto_map: expected none, found"
    )
    model, plain = (
        resolve_model(str(folders["tokenizer_config.json"])),
        resolve_model(str(tiny_model)),
    )
    ids = open_tokenizer(model).encode("the zebra runs", add_special_tokens=False).ids
    assert ids == open_tokenizer(plain).encode("the zebra runs", add_special_tokens=False).ids
    load_encoder(model)
    assert not (tmp_path / "canary").exists() and asked == []
