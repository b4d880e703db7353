import bz2
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from small_board import GOOD, METADATA, PASSAGE, SMALL, write

from raypipe.cli.main import run
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.leaderboard.submission import RunSide, pack


@pytest.fixture
def sides(tmp_path):
    write(tmp_path / "dev.tsv", GOOD)
    write(tmp_path / "eval.tsv", "5\t1\t1\n5\t2\t2\n5\t3\t3\n")
    write(tmp_path / "qrels", "7 0 11 1\n9 0 5 1\n")
    write(tmp_path / "metadata.json", json.dumps(METADATA))
    return {
        "dev": RunSide(run=tmp_path / "dev.tsv", qrels={"": tmp_path / "qrels"}),
        "eval": RunSide(run=tmp_path / "eval.tsv"),
    }


def packed(tmp_path, sides, submission="20261120-mine", **options):
    return pack(
        SMALL,
        sides,
        submission=submission,
        metadata=tmp_path / "metadata.json",
        out=tmp_path / "out",
        **options,
    )


def test_pack_writes_the_files_that_the_board_takes(tmp_path, sides):
    found = packed(tmp_path, sides)
    folder = tmp_path / "out" / "leaderboard"
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert files == {
        "submissions/20261120-mine/dev.txt.bz2",
        "submissions/20261120-mine/eval.txt.bz2",
        "submissions/20261120-mine-metadata.json",
        "check.json",
    }
    assert bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode() == GOOD
    assert json.loads((folder / "submissions/20261120-mine-metadata.json").read_text()) == METADATA
    assert found.measure == {"MRR @10": (1 / 2 + 1) / 2}
    told = json.loads((folder / "check.json").read_text())
    assert told["measure"] == found.measure and told["rules"]["dev"]
    assert (folder / "check.json").read_text() == json.dumps(told, indent=1) + "\n"
    before = {name: (folder / name).read_bytes() for name in files}
    packed(tmp_path, sides)  # the same again is no change
    assert before == {name: (folder / name).read_bytes() for name in files}


def test_a_correct_file_of_the_boards_form_is_told_as_one(tmp_path, sides):
    found = packed(tmp_path, sides).findings
    for name, count in (("dev", GOOD.count("\n")), ("eval", 3)):
        told = {finding.rule: finding for finding in found[name]}
        assert told["file format"].detail == f"msmarco, {count} lines"
        assert told["file format"].applies and told["file format"].ok
        assert not [f for f in found[name] if "is not a" in f.detail or not f.ok]


@pytest.mark.fault(47, "nothing is packed where a rule is broken")
def test_nothing_is_written_when_a_rule_is_broken_and_all_are_told(tmp_path, sides):
    write(tmp_path / "dev.tsv", GOOD.replace("\t99\t", "\t100\t"))
    write(tmp_path / "eval.tsv", "5\t1\t1\n")
    write(tmp_path / "metadata.json", json.dumps(METADATA | {"type": "x"}))
    with pytest.raises(InputError) as caught:
        packed(tmp_path, sides)
    text = str(caught.value)
    assert all(word in text for word in ("passage ids", "eval: rows", "metadata: type"))
    assert not (tmp_path / "out").exists()


def test_another_submission_of_the_same_id_is_refused(tmp_path, sides):
    packed(tmp_path, sides)
    write(tmp_path / "eval.tsv", "5\t1\t1\n5\t2\t2\n5\t4\t3\n")
    with pytest.raises(InputError, match="exists with other files"):
        packed(tmp_path, sides)
    assert not [p for p in (tmp_path / "out").rglob(".*")]


def test_other_metadata_of_the_same_id_is_refused(tmp_path, sides):
    packed(tmp_path, sides)
    told = tmp_path / "out" / "leaderboard" / "submissions" / "20261120-mine-metadata.json"
    before = told.read_bytes()
    write(tmp_path / "metadata.json", json.dumps(METADATA | {"team": "u"}))
    with pytest.raises(InputError, match="other metadata"):
        packed(tmp_path, sides)
    assert told.read_bytes() == before


def test_a_trec_run_fills_in_the_order_of_its_scores(tmp_path, sides):
    write(tmp_path / "dev.tsv", GOOD.replace("9\t6\t2\n9\t99\t3\n", ""))
    lines = ["9 Q0 41 1 1.0 x", "9 Q0 42 2 9.0 x", "9 Q0 43 3 5.0 x"]
    write(tmp_path / "fill.trec", "\n".join(lines) + "\n")
    dev = RunSide(run=tmp_path / "dev.tsv", fill=tmp_path / "fill.trec")
    found = packed(tmp_path, {**sides, "dev": dev})
    written = bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode()
    assert written.endswith("9\t5\t1\n9\t42\t2\n9\t43\t3\n")


def test_short_and_missing_queries_are_filled_and_counted(tmp_path, sides):
    write(tmp_path / "dev.tsv", "7\t10\t1\n")
    write(tmp_path / "bm25.tsv", GOOD)
    write(tmp_path / "queries.tsv", "9\tb\n7\ta\n")
    dev = RunSide(
        run=tmp_path / "dev.tsv",
        queries=tmp_path / "queries.tsv",
        fill=tmp_path / "bm25.tsv",
    )
    found = packed(tmp_path, {**sides, "dev": dev})
    written = bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode()
    assert written == "9\t5\t1\n9\t6\t2\n9\t99\t3\n7\t10\t1\n7\t11\t2\n7\t12\t3\n"
    (told,) = [f.detail for f in found.findings["dev"] if f.rule == "filled"]
    assert told == "5 rows of 2 queries from bm25.tsv"


def test_rows_below_the_boards_depth_are_refused_with_the_command_that_cuts_them(
    tmp_path, sides, capsys
):
    write(tmp_path / "dev.tsv", GOOD + "7\t13\t4\n7\t14\t5\n9\t7\t4\n")
    with pytest.raises(InputError) as refused:
        packed(tmp_path, sides)
    assert "dev: depth: 2 queries have more than 3 rows; first: query 7 with 5" in str(
        refused.value
    )
    (command,) = re.findall("cut them by `raypipe (fuse .*)`", str(refused.value))
    assert run([*command.replace("FOLDER", str(tmp_path / "cut")).split()]) == (0, "complete")
    dev = replace(sides["dev"], run=tmp_path / "cut" / "fused.trec")
    found = packed(tmp_path, {**sides, "dev": dev})
    assert bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode() == GOOD


@pytest.mark.long
def test_a_made_up_run_of_full_size_is_packed(raypipe_data, tmp_path):
    """6,980 and 6,837 queries with 1,000 rows each; a third of dev finds its passage."""
    topics = raypipe_data / "msmarco-topics"
    qrels = read_qrels(topics / "qrels.msmarco-passage.dev-subset.txt.gz")
    relevant = dict(
        zip(qrels["query_id"].to_pylist(), qrels["passage_id"].to_pylist(), strict=True)
    )
    rows = np.arange(1, 1001)
    expected = 0.0
    for name, file in (("dev", "dev"), ("eval", "test")):
        path = topics / f"topics.msmarco-passage.{file}-subset.txt.gz"
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        with (tmp_path / f"{name}.tsv").open("w") as out:
            for number, line in enumerate(lines):
                query = line.split("\t")[0]
                passages = (rows * 7919 + number * 31) % 8_841_823
                ids = [str(p) for p in passages]
                if name == "dev" and number % 3 == 0 and relevant[query] not in ids:
                    ids[number % 20] = relevant[query]
                    expected += 1 / (number % 20 + 1) if number % 20 < 10 else 0
                out.writelines(f"{query}\t{p}\t{r}\n" for r, p in enumerate(ids, 1))
    write(tmp_path / "metadata.json", json.dumps(METADATA))
    found = pack(
        PASSAGE,
        {
            "dev": RunSide(
                run=tmp_path / "dev.tsv",
                queries=topics / "topics.msmarco-passage.dev-subset.txt.gz",
                qrels={"": topics / "qrels.msmarco-passage.dev-subset.txt.gz"},
            ),
            "eval": RunSide(run=tmp_path / "eval.tsv"),
        },
        submission="20261120-mine",
        metadata=tmp_path / "metadata.json",
        out=tmp_path / "out",
    )
    assert found.measure["MRR @10"] == pytest.approx(expected / 6980, rel=1e-9)
    with bz2.open(found.folder / "eval.txt.bz2") as stream:
        assert sum(1 for _ in stream) == 6_837_000
