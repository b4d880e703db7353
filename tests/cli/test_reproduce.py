"""The command `reproduce`, on a made-up MS MARCO with a tiny model."""

import json
import re
from html import unescape

import pytest
from made_up_msmarco import NUM_PASSAGES, NUM_QUERIES, candidates, write_msmarco

from raypipe.cli.main import run
from raypipe.evaluation.run_files.runs import read_run
from raypipe.markdown import shown

VARIABLES = ("MSMARCO", "MSMARCO_V2", "MODELS", "RUNS", "TRECCAR", "RAYPIPE_DATA")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder for --data with the made-up files, and no variable set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    write_msmarco(tmp_path / "data" / "msmarco")
    return tmp_path / "data"


@pytest.fixture
def command(data, tiny_mono, tmp_path):
    """`reproduce monobert` with a tiny model in the place of the authors' weights."""
    model = f'models.mono-model={{"path": "{tiny_mono}"}}'
    settings = [model, "resources.backend=inline", "resources.device=cpu"]
    return ["reproduce", "monobert", *settings, "--data", str(data), "--out", str(tmp_path / "out")]


def judged_as(out, ranks):
    """Judgements in which each query has one relevant passage, at a rank of monoBERT's run.

    A rank of 0 is a passage that is no candidate. The last query has ten relevant passages, three
    of which are candidates, from the first rank on below ten.
    """
    by_query = {}
    for row in read_run(out / "msmarco-monobert" / "runs" / "dev" / "mono.trec").to_pylist():
        by_query.setdefault(int(row["query_id"]), []).append(int(row["passage_id"]))
    lines = []
    for query, rank in enumerate(ranks):
        others = [n for n in range(NUM_PASSAGES) if n not in candidates(query)]
        found = by_query[query]
        relevant = [others[0]] if rank == 0 else [found[rank - 1]]
        if query == NUM_QUERIES - 1:
            relevant = [*found[10:13], *others[:7]]
        lines += [f"{query} 0 {passage} 1\n" for passage in relevant]
    return "".join(lines)


def test_rows_fail_with_exit_5_and_pass_with_exit_0(command, data, tmp_path, capsys):
    """MRR@10 of 0.365 and recall of 0.815, the published values, are then made by judgements."""
    assert run(command)[0] == 5
    told = capsys.readouterr()
    assert "| BERT Large" in told.out and "fail" in told.out
    assert "fail: BERT Large (dev), Nogueira & Cho 2019, Table 1: ours" in told.err
    out = tmp_path / "out"
    # 6 + 2/2 + 1/5 + 1/10 = 7.3 of 20; 16 queries found, three not, of one three of ten.
    ranks = [1] * 6 + [2, 2, 5, 10] + [11, 12, 13, 14, 11, 12] + [0, 0, 0, 0]
    (data / "msmarco" / "qrels.dev.small.tsv").write_text(judged_as(out, ranks))
    assert run([*command, "--json"]) == (0, "complete")
    told = capsys.readouterr()
    section = json.loads(told.out)
    assert section == json.loads((out / "analysis" / "reproduce.monobert.json").read_bytes())
    rows = {(row[0], row[1]): row for row in section["tables"][0]["rows"]}
    assert rows["BERT Large", "dev"][3:5] == [pytest.approx(0.365), 0.365]
    assert rows["BERT Large", "dev"][6:] == [
        0.001, "pass", "the authors' weights", "Nogueira & Cho 2019, Table 1"
    ]  # fmt: skip
    assert rows["BERT Large", "eval"][7] == "board only"
    assert rows["KNRM", "dev"][3:5] == [None, 0.218] and rows["KNRM", "dev"][7] == "as published"
    (recall,) = [row for row in section["tables"][1]["rows"] if row[7] == "pass"]
    assert recall[:4] == ["BM25 (Microsoft baseline)", "dev", "R@1000", pytest.approx(0.815)]
    assert section["lead"].startswith("2 of 2 compared values are within their tolerance (2 pass,")
    assert any("changed by the command: models.mono-model=" in note for note in section["notes"])
    assert any("its start weights saw" in note for note in section["notes"])
    cells = [
        unescape(each)
        for each in re.findall(
            r"<td[^>]*>([^<]*)</td>", (out / "reproduce.monobert.html").read_text()
        )
    ]
    assert cells == [
        shown(value, column) if not isinstance(value, str) else value
        for table in section["tables"]
        for row in table["rows"]
        for value, column in zip(row, table["columns"], strict=True)
    ]
    assert run([*command, "evaluate.measures=[RR@10]"])[0] == 3
    told = capsys.readouterr()
    assert "not measured: BM25 (Microsoft baseline) (dev), Nogueira et al. 2019" in told.err
    assert "| not measured |" in told.out
    summary = json.loads((out / "msmarco-monobert" / "summary.json").read_bytes())
    scored = [told for name, told in summary["stages"].items() if name.startswith("scores@")]
    assert scored and all(told["reused"] for told in scored)


def test_everything_that_is_missing_is_told_at_once_before_any_work(data, tmp_path, capsys):
    (data / "msmarco" / "top1000.dev.tsv").unlink()
    command = ["reproduce", "monobert", "--data", str(data), "--out", str(tmp_path / "out")]
    assert run(command)[0] == 2
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if line.startswith("error: missing: ")]
    assert len(lines) == 2 and told.out == "" and not (tmp_path / "out").exists()
    assert f"{data}/msmarco/top1000.dev.tsv: MS MARCO's own first thousand" in told.err
    assert f"{data}/models/monobert-large: monoBERT's weights for MS MARCO" in told.err
    assert "from https://github.com/nyu-dl/dl4marco-bert (for msmarco-monobert)" in told.err


def test_without_any_data_the_variables_are_named_and_what_can_run_alone(data, monkeypatch, capsys):
    assert run(["reproduce", "monobert"])[0] == 2
    told = capsys.readouterr().err
    assert "missing: ${MSMARCO}/collection.tsv: the 8,841,823 passages" in told
    assert "not set: MSMARCO, MODELS; set each to its folder, or name with --data" in told
    monkeypatch.setenv("MSMARCO", str(data / "msmarco"))
    assert run(["reproduce", "bm25"])[0] == 2
    told = capsys.readouterr().err
    assert "to run them alone, --only msmarco-bm25\n" in told
    assert "not set: TRECCAR, RAYPIPE_DATA; set each" in told
    assert "${RAYPIPE_DATA}/nfcorpus/queries.jsonl.gz: BEIR's NFCorpus" in told


def test_inputs_are_listed_without_running(data, capsys):
    command = ["reproduce", "monobert", "--data", str(data), "--inputs"]
    assert run(command)[0] == 0
    told = capsys.readouterr().out
    assert f"found: {data}/msmarco/collection.tsv: the 8,841,823 passages" in told
    assert f"missing: {data}/models/monobert-large" in told
    assert run([*command, "--json"])[0] == 0
    found = json.loads(capsys.readouterr().out)["inputs"]
    assert {each["path"].removeprefix(f"{data}/"): each["found"] for each in found} == {
        "msmarco/collection.tsv": True,
        "msmarco/queries.dev.small.tsv": True,
        "msmarco/qrels.dev.small.tsv": True,
        "msmarco/top1000.dev.tsv": True,
        "models/monobert-large": False,
    }
    assert all(each["what"] and each["from"] for each in found)


def test_wrong_files_are_refused_before_any_work(command, data, tmp_path, capsys):
    msmarco = data / "msmarco"
    qrels = (msmarco / "qrels.dev.small.tsv").read_text()
    (msmarco / "top1000.dev.tsv").write_text(qrels)
    (msmarco / "collection.tsv").write_text('{"id": "1", "contents": "text"}\n')
    (msmarco / "queries.dev.small.tsv").write_text("1\ta\n1\tb\n")
    assert run(command)[0] == 2
    told = capsys.readouterr().err
    assert f"{msmarco}/top1000.dev.tsv: these are qrels" in told
    assert f"{msmarco}/collection.tsv: line 1: " in told and "in format msmarco-v1" in told
    assert "query id '1' again with another text" in told
    assert not (tmp_path / "out").exists()


def test_weights_of_another_size_or_kind_are_refused_before_any_work(
    command, data, tiny, tiny_model, tmp_path, capsys
):
    tiny.make_tiny_reranker(data / "models" / "monobert-large")
    assert (
        run(["reproduce", "monobert", "--data", str(data), "--out", str(tmp_path / "out")])[0] == 2
    )
    told = capsys.readouterr().err
    assert "monobert-large: expected monoBERT's weights for MS MARCO" in told
    assert "24 layers of 1024, found 2 of 32" in told
    command[2] = f'models.mono-model={{"path": "{tiny_model}"}}'
    assert run(command)[0] == 2
    assert f"{tiny_model}: expected a model of kind mono, found kind encoder" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["monobart"], "no 'monobart'; did you mean monobert?"),
        (["monobert", "--only", "msmarco-monobart"], "did you mean msmarco-monobert?"),
        (["monobert", "mono:steps=1"], "mono:steps=1: no step 'mono'"),
        (["monobert", "stages.mono.k=1"], "msmarco-monobert: "),
    ],
)
def test_wrong_words_are_told(arguments, expected, data, capsys):
    assert run(["reproduce", *arguments])[0] == 2
    assert expected in capsys.readouterr().err
