import json
from dataclasses import asdict

import pytest

import raypipe
from raypipe.errors import InputError

RUN = {"q": {"a": 3.0, "b": 2.0}, "r": {"a": 1.0}}
QRELS = {"q": {"b": 1}, "r": {"a": 1}}


@pytest.fixture(scope="module")
def files(made, qrels, tmp_path_factory):
    """Runs and judgements as the command line takes them."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("dense", "mono"):
        raypipe.write_run(made.runs["test"][name], folder / f"{name}.parquet")
    lines = [f"{q} 0 {p} {g}\n" for q, grades in qrels.items() for p, g in grades.items()]
    (folder / "qrels.txt").write_text("".join(lines))
    return folder


def test_a_measure_has_a_mean_and_a_value_a_query():
    found = raypipe.evaluate(RUN, QRELS, ["RR@10"])
    assert found.mean == {"RR@10": 0.75}
    assert found.per_query == {"RR@10": {"q": 0.5, "r": 1.0}}
    assert found.num_topics == {"RR@10": 2}
    assert "0.75" in repr(found) and "'q'" not in repr(found)


def test_several_runs_are_measured_by_name(tmp_path):
    raypipe.write_run(RUN, tmp_path / "run.parquet")
    found = raypipe.evaluate({"one": RUN, "two": tmp_path / "run.parquet"}, QRELS, "RR@10, R@1")
    assert {name: m.mean for name, m in found.items()} == {
        "one": {"RR@10": 0.75, "R@1": 0.5},
        "two": {"RR@10": 0.75, "R@1": 0.5},
    }


def test_means_are_the_pipelines_and_the_verbs(made, qrels, files, raypipe_here):
    measures = ["nDCG@10", "RR@10"]
    found = raypipe.evaluate(made.runs["test"], qrels, measures)
    assert {n: m.mean for n, m in found.items()} == made.summary["measures"]["test"]
    told = raypipe_here(
        "evaluate", files / "mono.parquet", "--qrels", files / "qrels.txt", "--json"
    )
    (of_file,) = json.loads(told.stdout).values()
    own = raypipe.evaluate(files / "mono.parquet", files / "qrels.txt")
    assert of_file == {"mean": own.mean, "n": own.num_topics}


def test_comparisons_are_the_verbs(made, qrels, files, raypipe_here):
    paths = [files / "dense.parquet", files / "mono.parquet"]
    told = raypipe_here("compare", *paths, "--qrels", files / "qrels.txt", "--json")
    body = json.loads(told.stdout)
    runs = {str(path): made.runs["test"][path.stem] for path in paths}
    found = raypipe.compare(runs, qrels)
    assert found.family == body["family"]
    assert [asdict(row) for row in found.rows] == body["comparisons"]


def test_a_baseline_and_a_seed_are_taken():
    runs = {"one": RUN, "two": {"q": {"b": 1.0}}}
    first = raypipe.compare(runs, QRELS, "RR@10")
    assert [(row.run, row.difference is None) for row in first.rows] == [
        ("one", True),
        ("two", False),
    ]
    other = raypipe.compare(runs, QRELS, "RR@10", baseline="two", seed=1)
    assert other.rows[0].difference.mean == -first.rows[1].difference.mean == 0.25
    for more, told in (
        ({"runs": {"one": RUN}}, "runs: found one; expected two or more"),
        ({"runs": RUN}, "runs: found one; expected two or more"),
        ({"baseline": "three"}, "baseline: expected one of the runs, one, two; found 'three'"),
        ({"measures": ["NumRel"]}, "NumRel: a count over all queries"),
    ):
        with pytest.raises(InputError, match=told):
            raypipe.compare(**{"runs": runs, "qrels": QRELS, **more})


def test_a_measure_that_nobody_knows_is_refused():
    with pytest.raises(InputError, match="measure 'nDG@10': unknown"):
        raypipe.evaluate(RUN, QRELS, "nDG@10")


def test_a_measure_named_twice_is_measured_once():
    found = raypipe.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, "AP AP, RR@10")
    assert list(found.mean) == ["AP", "RR@10"]


def test_measures_and_comparisons_become_data_frames():
    runs = {"one": RUN, "two": {"q": {"b": 1.0}, "r": {"c": 1.0}}}
    frame = raypipe.evaluate(RUN, QRELS, ["RR@10", "P@1"]).to_pandas()
    assert frame.to_dict("list") == {"query_id": ["q", "r"], "RR@10": [0.5, 1.0], "P@1": [0.0, 1.0]}
    found = raypipe.compare(runs, QRELS, ["RR@10", "P@1"])
    frame = found.to_pandas()
    assert [*frame.columns] == [
        "run", "measure", "mean", "n", "unjudged", "difference", "low", "high", "wins", "ties",
        "losses", "p_t", "p_randomisation", "p_holm",
    ]  # fmt: skip
    assert [*zip(frame["run"], frame["measure"], strict=True)] == [
        (row.run, row.measure) for row in found.rows
    ]
    assert frame["mean"].tolist() == [0.75, 0.5, 0.5, 0.5]
    of_two = found.rows[1]
    line = frame.iloc[1]
    assert (line["difference"], line["low"], line["high"]) == (
        of_two.difference.mean, of_two.difference.low, of_two.difference.high
    )  # fmt: skip
    assert line["difference"] == -0.25 and line["p_holm"] == of_two.p_holm
    assert frame[["difference", "low", "wins", "p_t"]].iloc[0].isna().all(), "the baseline's"
