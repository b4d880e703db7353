"""BEIR: one file of queries for all splits, judgements by split, a run over all queries."""

import json

import pytest
import yaml

from raypipe.errors import InputError


def lines_of(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def beir(small_files, small_recipe, tmp_path):
    """The small recipe's path, rewritten over a folder in BEIR's layout."""
    body = yaml.safe_load(small_recipe(steps=4, validate={"every": 4}).read_text())
    splits = ("train", "dev", "test")
    files = {
        s: [each.split("\t") for each in lines_of(small_files / f"queries.{s}.tsv")] for s in splits
    }
    texts = [{"_id": i, "text": t, "metadata": {}} for found in files.values() for i, t in found]
    queries, run = tmp_path / "queries.jsonl", tmp_path / "all.trec"
    queries.write_text("".join(json.dumps(each) + "\n" for each in texts))
    run.write_text("".join((tmp_path / f"{s}.trec").read_text() for s in ("train", "dev")))
    for split in splits:
        judged = [each.split() for each in lines_of(small_files / f"qrels.{split}.txt")]
        rows = "".join(f"{query}\t{passage}\t{grade}\n" for query, _, passage, grade in judged)
        (tmp_path / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    for group, split in (("train", "train"), ("dev", "dev"), ("guard", "test")):
        (each,) = body[group].values()
        each |= {"queries": str(queries), "qrels": str(tmp_path / f"{split}.tsv")}
    body["train"]["docs"]["negatives"]["runs"] = str(run)
    body["dev"]["docs"]["run"] = str(run)
    path = tmp_path / "beir.yaml"
    path.write_text(yaml.safe_dump(body))
    return path, {split: len(found) for split, found in files.items()}


@pytest.mark.slow
def test_one_file_of_queries_trains_as_one_file_for_each_split(
    beir, small_recipe, train, weights, tmp_path
):
    path, counts = beir
    plain, said = [], []
    train(small_recipe(steps=4, validate={"every": 4}), tmp_path / "plain", said=plain)
    train(path, tmp_path / "beir", said=said)
    unjudged = [line for line in said if "without judgements" in line]
    every = sum(counts.values())
    assert unjudged == [
        f"train: docs: left out {every - counts['train']} queries without judgements",
        f"dev: docs: left out {every - counts['dev']} queries without judgements",
    ]
    told = [line for line in plain if line.startswith(("train: docs", "guard", "train: step 0"))]
    assert len(told) >= 4 and set(told) <= set(said)
    one, other = weights(tmp_path / "plain"), weights(tmp_path / "beir")
    assert all(one[name].equal(other[name]) for name in one)


def test_a_line_of_a_query_that_stands_in_no_file_is_refused(beir, train, tmp_path):
    path, _ = beir
    run = tmp_path / "all.trec"
    line = run.read_text().splitlines()[0].split()
    run.write_text(" ".join(["stranger", *line[1:]]) + "\n" + run.read_text())
    with pytest.raises(InputError, match="1 query ids are not in the query set, first stranger;"):
        train(path, tmp_path / "out")
