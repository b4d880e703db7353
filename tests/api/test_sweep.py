import json

import pytest

import raypipe
from raypipe.api.opened.ray import Ray
from raypipe.cluster.inline import InlineBackend
from raypipe.driver.machine.backends import LazyBackends
from raypipe.driver.machine.shared import SharedRay
from raypipe.errors import InputError


@pytest.fixture
def recipe(tmp_path):
    """A recipe that fuses two runs, as a dictionary."""
    (tmp_path / "passages.tsv").write_text("a\tone\nb\ttwo\nc\tthree\n")
    (tmp_path / "queries.tsv").write_text("1\tx\n")
    (tmp_path / "qrels.txt").write_text("1 0 b 1\n")
    for name, ids in (("x", "abc"), ("y", "bca")):
        lines = (f"1 Q0 {p} {rank} {9 - rank} r\n" for rank, p in enumerate(ids, start=1))
        (tmp_path / name).write_text("".join(lines))
    queries = {"file": str(tmp_path / "queries.tsv"), "qrels": str(tmp_path / "qrels.txt")}
    return {
        "format": 1,
        "name": "fused",
        "collection": {"format": "msmarco-v1", "input": str(tmp_path / "passages.tsv")},
        "queries": {"dev": queries},
        "stages": {
            "x": {"do": "read", "runs": {"dev": str(tmp_path / "x")}},
            "y": {"do": "read", "runs": {"dev": str(tmp_path / "y")}},
            "both": {"do": "fuse", "runs": ["x", "y"], "method": "weighted"},
        },
        "evaluate": {"measures": ["RR@10"]},
    }


def test_a_sweep_gives_its_table_its_rows_and_each_points_result(recipe, tmp_path, capsys):
    weights = {"stages.both.weights": [[1, 0], [0, 1]], "stages.both.depth": 2}
    found = raypipe.sweep(recipe, tmp_path / "w", overrides=weights)
    folders = {path.name for path in (tmp_path / "w" / "points").iterdir()}
    assert folders == set(found.points) and len(folders) == 2
    best = [point.runs["dev"]["both"]["passage_id"].to_pylist() for point in found.points.values()]
    assert best == [["a", "b"], ["b", "c"]]
    of_both = [row for row in found.rows if row["system"] == "both"]
    assert [row["measures"]["RR@10"] for row in of_both] == [0.5, 1.0]
    assert of_both[0]["values"] == {"stages.both.weights": [1, 0]}
    assert found.rows == json.loads((tmp_path / "w" / "sweep.json").read_text())["rows"]
    assert found.table == (tmp_path / "w" / "sweep.md").read_text()
    assert "| [0, 1] " in found.table and found.folder == tmp_path / "w"
    assert capsys.readouterr().err == ""


def test_progress_is_told_on_request_and_only_what_is_asked_for_is_run(recipe, tmp_path, capsys):
    settings = {"overrides": ["stages.both.depth=[1, 2]"], "until": "x", "progress": True}
    found = raypipe.sweep(recipe, tmp_path / "w", **settings)
    assert {row["system"] for row in found.rows} == {"x"}
    told = capsys.readouterr().err
    assert "point 2 of 2: " in told and "x on dev: reused, 1 row" in told


def test_without_a_list_of_values_there_is_no_sweep(recipe, tmp_path):
    with pytest.raises(InputError, match="expected a list of values .* there is `raypipe.run`"):
        raypipe.sweep(recipe, tmp_path / "w", overrides={"stages.both.depth": 2})
    with pytest.raises(InputError, match="expected a whole number; found text 'x'"):
        raypipe.sweep(recipe, tmp_path / "w", overrides={"stages.both.depth": [2, "x"]})
    with pytest.raises(InputError, match="expected a dictionary such as"):
        raypipe.sweep(recipe, tmp_path / "w", overrides=3)
    assert not (tmp_path / "w").exists()


def test_an_opened_ray_serves_the_points(recipe, tmp_path):
    class Lent(SharedRay):
        def lend(self, start, num_actors, wanted):
            lent.append(wanted)
            return LazyBackends(lambda: InlineBackend(device="cpu", threads=1), 1)

    lent = []
    opened = Ray(Lent(), None)
    grid = {"stages.both.weights": [[1, 0], [0, 1]]}
    found = raypipe.sweep(recipe, tmp_path / "w", overrides=grid, ray=opened)
    assert len(found.points) == len(lent) == 2
    opened.close()
    with pytest.raises(InputError, match="ray: closed"):
        raypipe.sweep(recipe, tmp_path / "w", overrides=grid, ray=opened)
