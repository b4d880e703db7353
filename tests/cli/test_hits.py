"""`raypipe search --query TEXT`: the passages of one query on stdout, from any workspace."""

import json

import pytest
from recipes import dense, write_files
from rich.cells import cell_len

import raypipe
from raypipe.cli.main import run
from raypipe.cli.stages import text_of_hits
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline

TEXTS = ["a zebra", "the lease", "zebra zebra run", "shards of a lease", "lease", "shards run on"]


@pytest.fixture(scope="module")
def work(tiny_model, tmp_path_factory):
    """A workspace that has no generation."""
    folder = tmp_path_factory.mktemp("once")
    write_files(folder, TEXTS, {"1": "zebra run"})
    recipe = load_recipe(dense(folder, tiny_model, name="once"), source="once")
    run_pipeline(recipe, folder / "work", Options(), watcher=Watcher())
    return folder / "work"


def search(capsys, *arguments):
    code = run(["search", *map(str, arguments)])[0]
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_hits_are_those_of_the_pipelines_run_with_their_texts(work, capsys):
    code, out, _ = search(capsys, "--index", work, "--query", "zebra run", "--depth", 3, "--json")
    assert code == 0
    found = json.loads(out)
    with raypipe.open_index(work) as index:
        assert index.number == 0 and "the workspace of once" in repr(index)
        expected = index.run("dense", "test").to_pylist()
    told = [(hit["rank"], hit["passage_id"], hit["score"]) for hit in found["hits"]]
    assert told == [(row["rank"], row["passage_id"], row["score"]) for row in expected]
    assert [hit["text"] for hit in found["hits"]] == [TEXTS[int(i[1:])] for _, i, _ in told]


def test_without_json_each_hit_has_its_rank_score_id_and_text(work, capsys):
    code, out, _ = search(capsys, "--index", work, "--query", "lease")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 2 * len(TEXTS)  # ten are asked for, and there are six
    rank, score, passage = lines[0].split()
    assert rank == "1" and float(score) > 0 and lines[1] == f"    {TEXTS[int(passage[1:])]}"


def test_it_writes_nothing(work, capsys):
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    assert search(capsys, "--index", work, "--query", "lease")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


@pytest.mark.parametrize("named", ["vectors", "tiny", "path"])
def test_an_index_is_named_by_its_stage_its_model_or_the_models_path(
    work, capsys, tiny_model, monkeypatch, named
):
    monkeypatch.chdir(tiny_model.parent)
    model = tiny_model.name if named == "path" else named
    assert search(capsys, "--index", work, "--query", "x", "--model", model)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--query", "x", "--out", "o"], "--out: not with --query"),
        (["--query", "x", "--queries", "q.tsv"], "--queries: not with --query"),
        (["--queries", "q.tsv"], "expected --queries FILE and --out DIR, or --query TEXT"),
        ([], "expected --queries FILE and --out DIR, or --query TEXT"),
        (["--query", "x", "--model", "other"], "found 'other', which fits 0"),
        (["--query", "x", "--generation", "1"], "generation"),
        (["--query", "x", "--bm25.k1", "0.5"], "k1, b: for BM25"),
        (["--query", "x", "--depth", "0"], "depth"),
        (["--query", "x", "search.depth=3"], "search.depth=3: not with --query"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(work, capsys, arguments, told):
    code, out, err = search(capsys, "--index", work, *arguments)
    assert code == 2 and told in err and not out


def test_long_texts_are_cut_control_characters_hidden_and_nothing_is_said_plainly():
    text = text_of_hits(
        "q", [{"rank": 1, "score": 0.5, "passage_id": "p\x1b", "text": "word " * 200}]
    )
    head, *lines = text.splitlines()
    assert head == "  1 0.5000 p\ufffd" and len(lines) == 3 and lines[-1].endswith(" ...")
    assert max(map(len, lines)) <= 100
    whole = [" ".join(["word"] * 19)] * 3  # 94 of the 96 columns behind the indent
    hit = {"rank": 1, "score": 0.5, "passage_id": "p", "text": " ".join(whole)}
    assert text_of_hits("q", [hit]).splitlines()[1:] == [f"    {line}" for line in whole]
    assert text_of_hits("a\x1bb", []) == "no passage for 'a\ufffdb'"


def test_cut_texts_of_wide_characters_are_no_wider_than_the_terminal(monkeypatch):
    for width in (40, 41, 9, 2):
        monkeypatch.setattr("raypipe.cli.stages.terminal_width", lambda width=width: width)
        hit = {"rank": 1, "score": 0.5, "passage_id": "p", "text": "圧縮された文書を展開する" * 20}
        _, *lines = text_of_hits("q", [hit]).splitlines()
        assert len(lines) == 3 and lines[-1].endswith(" ...")
        assert max(map(cell_len, lines)) <= max(width, 10)
