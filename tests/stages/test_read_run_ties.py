"""The stage that reads a run keeps the file's order of ties if its recipe asks for it."""

import raypipe


def test_a_recipes_read_stage_may_keep_the_files_order_of_ties(tmp_path):
    (tmp_path / "p.tsv").write_text("a\tone\nb\ttwo\nc\tthree\n")
    (tmp_path / "q.tsv").write_text("1\tx\n")
    (tmp_path / "run").write_text("1 Q0 a 1 2 t\n1 Q0 c 2 1 t\n1 Q0 b 3 1 t\n")
    keys = {
        "format": 1,
        "name": "small",
        "collection": {"format": "msmarco-v1", "input": str(tmp_path / "p.tsv")},
        "queries": {"test": {"file": str(tmp_path / "q.tsv")}},
        "stages": {
            "kept": {
                "do": "read",
                "runs": {"test": str(tmp_path / "run")},
                "break_ties": "rank",
            },
        },
        "resources": {"backend": "inline"},
    }
    found = raypipe.run(keys, out=tmp_path / "work")
    assert found.runs["test"]["kept"]["passage_id"].to_pylist() == ["a", "c", "b"]
    by_id = {"stages.kept.break_ties": "id"}
    again = raypipe.run(keys, out=tmp_path / "work", overrides=by_id)
    assert again.runs["test"]["kept"]["passage_id"].to_pylist() == ["a", "c", "b"]
    (tmp_path / "run").write_text("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n1 Q0 c 3 1 t\n")
    for ties, order in (("id", ["a", "c", "b"]), ("rank", ["a", "b", "c"])):
        overrides = {"stages.kept.break_ties": ties}
        found = raypipe.run(keys, out=tmp_path / "work", overrides=overrides)
        assert found.runs["test"]["kept"]["passage_id"].to_pylist() == order
