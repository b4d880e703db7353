"""ir_datasets' own package, with a tiny data set of its kind; skipped where it is not installed."""

import json
import sys

import pytest

import raypipe
from raypipe.cli.main import run as command

DOCS = [("d1", "parse a file of commas"), ("d2", "unpack an archive"), ("d3", "a decorator")]


@pytest.fixture
def mini(tmp_path, monkeypatch):
    """The id of a data set with passages, queries and judgements."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    library = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in DOCS))
    (tmp_path / "queries.tsv").write_text("q1\tread comma separated values\nq2\tzip\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d2 2\n")
    made = library.create_dataset(
        docs_tsv=str(tmp_path / "docs.tsv"),
        queries_tsv=str(tmp_path / "queries.tsv"),
        qrels_trec=str(tmp_path / "qrels"),
    )
    name = f"mini-{tmp_path.name}/test"
    library.registry.register(name, made)
    return name


def test_a_recipe_may_take_passages_queries_and_judgements_from_ir_datasets(mini, tmp_path):
    keys = {
        "format": 1,
        "name": "small",
        "collection": {"format": "ir-datasets", "input": mini},
        "queries": {"test": {"file": f"irds:{mini}", "qrels": f"irds:{mini}"}},
        "models": {"minilm": {"path": "minilm"}},
        "stages": {
            "embeddings": {"do": "encode", "model": "minilm"},
            "dense": {"do": "search", "index": "embeddings"},
        },
        "evaluate": {"measures": ["recip_rank", "P_1"], "baseline": "dense"},
        "resources": {"backend": "inline"},
    }
    found = raypipe.run(keys, out=tmp_path / "work")
    ids = found.runs["test"]["dense"]["passage_id"].to_pylist()
    assert ids[0] == "d1" and ids[3] == "d2"
    means = found.summary["measures"]["test"]["dense"]
    assert means["recip_rank"] == 1 and means["P_1"] == 1
    made = {path.name for path in (tmp_path / "work" / "inputs").rglob("*") if path.is_file()}
    assert made == {"queries.jsonl", "qrels.txt"}
    again = raypipe.run(keys, out=tmp_path / "work")
    assert again.summary["stores"] == found.summary["stores"]


def test_commands_take_such_an_id_for_judgements(mini, tmp_path, capsys):
    (tmp_path / "run").write_text("q1 Q0 d1 1 2 x\nq2 Q0 d1 1 2 x\nq2 Q0 d2 2 1 x\n")
    told = ["evaluate", str(tmp_path / "run"), "--qrels", f"irds:{mini}", "--measures", "RR"]
    assert command([*told, "--json"])[0] == 0
    assert json.loads(capsys.readouterr().out)[str(tmp_path / "run")]["mean"]["RR"] == 0.75


def test_an_id_without_the_package_is_refused_with_what_installs_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    (tmp_path / "run").write_text("q1 Q0 d1 1 2 x\n")
    assert command(["evaluate", str(tmp_path / "run"), "--qrels", "irds:vaswani"])[0] == 2
    assert "pip install 'raypipe[ir-datasets]'" in capsys.readouterr().err
