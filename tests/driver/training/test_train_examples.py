import json

import pytest

from raypipe.config.load import load_training
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError

FEW = {"steps": 2, "optimiser": {"warmup": 1}, "validate": {"every": 2}}
"""For a training of which the examples alone are looked at."""


def test_triples_by_id_are_trained_on_without_guarded_queries(
    small_recipe, train, small_files, tmp_path
):
    queries = [
        line.split("\t") for line in (small_files / "queries.train.tsv").read_text().splitlines()
    ]
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    triples = tmp_path / "qidpidtriples.tsv"
    triples.write_text(
        "".join(f"{q}\t{ids[n]}\t{ids[n + 1]}\n" for n, (q, _) in enumerate(queries))
    )
    guard = tmp_path / "guard.tsv"
    guard.write_text(f"x\t{queries[0][1].upper()}\n")
    train_set = {
        "collection": "docs",
        "queries": str(small_files / "queries.train.tsv"),
        "triples": str(triples),
    }
    path = small_recipe(train={"docs": train_set}, guard={"test": {"queries": str(guard)}}, **FEW)
    trained = train(path, tmp_path / "out")
    facts = trained.summary["examples"]["docs"]
    assert facts["dropped"]["same_query"] == 1
    assert facts["examples"] == len(queries) - 1 - facts["dropped"]["near_query"]
    triples.write_text("nobody\ta\tb\n")
    with pytest.raises(InputError, match="line 1: nobody a b: .*; nobody is not in the queries"):
        train(path, tmp_path / "other")


@pytest.mark.slow
def test_triples_of_texts_are_split_once_and_trained_on_like_triples_by_id(
    small_recipe, train, tmp_path
):
    lines = [f"what is topic {n}\tabout topic {n % 5}\tabout topic {n % 5 + 5}" for n in range(20)]
    file = tmp_path / "triples.tsv"
    file.write_text("\n".join(lines) + "\n")
    path = small_recipe(train={"docs": None, "small": {"texts": str(file)}}, **FEW)
    trained = train(path, tmp_path / "out")
    assert trained.summary["examples"]["small"]["examples"] == 20
    folder = tmp_path / "out" / "triples" / "small"
    assert len((folder / "passages.tsv").read_text().splitlines()) == 10
    assert (folder / "triples.tsv").read_text().splitlines()[7] == "7\t4\t5"
    before = (folder / "triples.tsv").stat().st_mtime_ns
    train(path, tmp_path / "out", "seed=3")
    assert (folder / "triples.tsv").stat().st_mtime_ns == before
    file.write_text("".join(f"{line} again\n" for line in lines))
    again = train(path, tmp_path / "out")
    assert again.summary["examples"]["small"]["examples"] == 20
    collections = [path.parent for path in (tmp_path / "out").glob("collections/*/workspace.json")]
    stores = str(tmp_path / "out" / "stores")
    kept = [Workspace(each, stores) for each in collections]
    assert kept and all(each.refs() and not each.sources() for each in kept)
    file.write_text("only two\tcolumns\n")
    with pytest.raises(InputError, match="line 1: expected query, relevant and irrelevant"):
        train(path, tmp_path / "other")


def test_smaller_training_sizes_are_parts_of_larger_ones(small_recipe, train, tmp_path):
    def examples(count):
        from raypipe.storage.records import unseal
        from raypipe.training.examples import map_examples

        body = small_recipe(f"size-{count}", **FEW)
        text = body.read_text().replace(
            "    negatives:", f"    examples_at_most: {count}\n    negatives:"
        )
        body.write_text(text)
        train(body, tmp_path / str(count))
        (record,) = (tmp_path / str(count) / "stores" / "examples@docs").glob("*/shards/*")
        sha256 = unseal(record.name, record.read_bytes())["sha256"]
        found = map_examples(tmp_path / str(count) / f"stores/blobs/{sha256[:2]}/{sha256}")
        rows = zip(found.query_rows.tolist(), found.passage_rows.tolist(), strict=True)
        return {(query, *passages) for query, passages in rows}

    small, large = examples(10), examples(25)
    assert len(small) == 10 and len(large) == 25
    assert small < large


def test_every_first_candidate_of_a_run_is_learnt_by_its_label(
    small_recipe, train, small_files, tmp_path
):
    train_set = {"negatives": None, "collection": "docs"}
    train_set |= {key: str(small_files / f"{key}.train{end}") for key, end in
                  (("queries", ".tsv"), ("qrels", ".txt"))}  # fmt: skip
    train_set["pairs"] = {"runs": str(tmp_path / "train.trec"), "last": 29}
    few = {**FEW, "dev": {"docs": None}, "validate": None}
    path = small_recipe(
        train={"docs": train_set}, model={"start_saw": "nothing at all"}, guard={}, **few
    )
    said = []
    trained = train(path, tmp_path / "out", said=said)
    judged = [line.split() for line in (small_files / "qrels.train.txt").read_text().splitlines()]
    relevant = {(row[0], row[2]) for row in judged}
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    near = [(r[0], r[2]) for r in run if int(r[3]) <= 29 and r[0] in {q for q, _ in relevant}]
    facts = trained.summary["examples"]["docs"]
    assert facts["examples"] == len(near) > 0 and facts["passages"] == 1
    assert facts["relevant"] == len(relevant.intersection(near)) > 0
    assert any(f"{facts['relevant']:,} of them relevant" in line for line in said)
    assert "its weights have seen: nothing at all; then docs (small)" in trained.table
    without = [row for row in run if (row[0], row[2]) not in relevant]
    (tmp_path / "train.trec").write_text("".join(" ".join(row) + "\n" for row in without))
    with pytest.raises(InputError, match="train.docs.pairs: expected .* all irrelevant"):
        train(path, tmp_path / "other")


@pytest.mark.parametrize("loss", ["margin-mse", "mse", "kl"])
def test_a_teachers_run_is_learnt_from(small_recipe, train, small_files, tmp_path, loss):
    path = small_recipe(loss={"name": loss}, **FEW)
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    judged = (small_files / "qrels.train.txt").read_text().splitlines()
    scores = {(row[0], row[2]): float(row[4]) for row in run}
    scores |= {(line.split()[0], line.split()[2]): 2.0 for line in judged[1:]}
    teacher = tmp_path / "teacher.trec"
    lines = [f"{q} Q0 {p} 1 {score} teacher\n" for (q, p), score in sorted(scores.items())]
    teacher.write_text("".join(lines))
    path.write_text(
        path.read_text().replace("    negatives:", f"    teacher: {teacher}\n    negatives:")
    )
    trained = train(path, tmp_path / "out")
    facts = trained.summary["examples"]["docs"]
    # Every judged passage but the first has a score; the first has one only if its run holds it.
    without = (judged[0].split()[0], judged[0].split()[2]) not in scores
    assert facts["short"]["without_teacher"] == int(without)
    assert facts["examples"] == len(judged) - int(without) - facts["short"]["without_negatives"]
    with pytest.raises(InputError, match="learns from its scores"):
        load_training(small_recipe("no-teacher", loss={"name": loss}))


def test_passages_judged_for_an_evaluation_are_left_out_of_both_sides(
    small_recipe, train, small_files, tmp_path
):
    test = {
        "queries": str(small_files / "queries.test.tsv"),
        "qrels": str(small_files / "qrels.test.txt"),
        "collection": "docs",
        "leave_out_passages": True,
    }
    trained = train(small_recipe(guard={"test": test}, **FEW), tmp_path / "out")
    dropped = trained.summary["examples"]["docs"]["dropped"]
    judged = {line.split()[2] for line in (small_files / "qrels.test.txt").read_text().splitlines()}
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    assert dropped["left_out_negative"] == sum(row[2] in judged for row in run) > 0
    with pytest.raises(InputError, match="leave_out_passages: needs qrels and collection"):
        load_training(small_recipe(guard={"test": {**test, "collection": None}}))


def test_several_dev_sets_are_averaged(small_recipe, train, small_files, tmp_path):
    path = small_recipe(**FEW)
    text = path.read_text()
    start = text.index("dev:\n")
    block = text[start:].split("guard:")[0]
    again = block.replace("dev:\n", "").replace("  docs:", "  more:", 1).replace("k: 10", "k: 20")
    path.write_text(text.replace(block, block + again))
    (measured,) = train(path, tmp_path / "out").summary["history"]
    assert len(measured["values"]) == 2
    assert measured["mean"] == pytest.approx(sum(measured["values"]) / 2)


def test_a_dev_set_of_fewer_queries_is_that_of_the_first(
    small_recipe, train, small_files, tmp_path
):
    def measured(name, queries, **limits):
        path = small_recipe(name, **FEW)
        text = path.read_text().replace(str(small_files / "queries.dev.tsv"), str(queries))
        path.write_text(
            text.replace(
                "    k: 10\n", "    k: 30\n" + "".join(f"    {k}: {v}\n" for k, v in limits.items())
            )
        )
        return train(path, tmp_path / name).summary["history"][0]["mean"]

    lines = (small_files / "queries.dev.tsv").read_text().splitlines(keepends=True)
    judged = {x.split()[0] for x in (small_files / "qrels.dev.txt").read_text().splitlines()}
    first = [line for line in lines if line.split("\t")[0] in judged][:12]
    (tmp_path / "first.tsv").write_text("".join(first))
    run = (tmp_path / "dev.trec").read_text().splitlines(keepends=True)
    fewer = measured("fewer", small_files / "queries.dev.tsv", queries_at_most=12)
    asked = {line.split("\t")[0] for line in first}
    kept = "".join(line for line in run if line.split()[0] in asked)
    (tmp_path / "dev.trec").write_text(kept)
    assert fewer == measured("first", tmp_path / "first.tsv")


@pytest.mark.slow
def test_a_blend_is_learnt_from_judged_and_unlabelled_lists_and_the_model_keeps_it(
    small_recipe, train, small_files, tmp_path
):
    """z of the judged lists comes from the run, or is 0; the unlabelled ones learn from it too."""
    run = str(tmp_path / "train.trec")
    lists = {"runs": run, "last": 20, "per_example": 3}
    judged = {"negatives": lists, "blend": {"runs": run, "last": 20}}
    queries = str(small_files / "queries.train.tsv")
    unlabelled = {"collection": "docs", "queries": queries, "teacher": run,
                  "negatives": {**lists, "examples": 2}, "blend": {"runs": [run, run]}}  # fmt: skip
    files = {key: str(small_files / f"{key}.train{end}")
             for key, end in (("queries", ".tsv"), ("qrels", ".txt"))}  # fmt: skip
    loss = {"name": "listwise", "blend": 4, "teacher_weight": 0.5}
    sets = {"docs": {"collection": "docs", **files, **judged}, "more": unlabelled}
    guard = tmp_path / "guard.tsv"
    guard.write_text((small_files / "queries.train.tsv").read_text().splitlines()[0].upper())
    path = small_recipe(loss=loss, train=sets, guard={"test": {"queries": str(guard)}}, **FEW)
    trained = train(path, tmp_path / "out")
    facts = trained.summary["examples"]
    assert facts["docs"]["passages"] == facts["more"]["passages"] == 4
    dropped = facts["more"]["dropped"]
    assert dropped["same_query"] == 1
    left = facts["more"]["queries"] + dropped["same_query"] + dropped["near_query"]
    assert left == len((small_files / "queries.train.tsv").read_text().splitlines())
    assert facts["more"]["examples"] == 2 * facts["more"]["queries"]
    settings = json.loads((tmp_path / "out/models/small/raypipe.json").read_text())
    assert settings["blend"] == 4.0
