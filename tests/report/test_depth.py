import pytest

from raypipe.report.first_stages import depth


def rows(table, *key):
    """The table's rows as mappings, by the columns of `key`."""
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {tuple(row[column] for column in key): row for row in found}


def test_recall_by_depth_is_each_first_stages_own(finished):
    found = rows(depth(finished, "test").tables[0], "first stage")
    assert set(found) == {("dense",), ("given",)}
    judged = {"q1": {"p1", "p9"}, "q2": {"p7"}, "q3": {"p3"}}
    for system in ("dense", "given"):
        run = finished.named(finished.run(system, "test"), "test").to_pylist()
        for number in (5, 10):
            top = {(line["query_id"], line["passage_id"]) for line in run if line["rank"] <= number}
            shares = [sum((q, p) in top for p in ps) / len(ps) for q, ps in judged.items()]
            assert found[system,][str(number)] == pytest.approx(sum(shares) / 3)
    assert found["given",]["20"] is None and found["dense",]["20"] is not None


def test_a_reranker_at_a_depth_is_a_stage_with_so_many_candidates(finished, analysed):
    table = depth(finished, "test").tables[1]
    found = rows(table, "reranker", "over", "candidates")
    assert set(found) == {("first", "dense", 5), ("first", "dense", 8)}
    for number, other in ((5, analysed(k0=5, name="shallow")), (8, finished)):
        means = other.summary["measures"]["test"]["first"]
        told = found["first", "dense", number]
        assert {m: told[m] for m in ("RR@10", "R@5")} == means


def test_a_chart_has_the_tables_values(finished):
    section = depth(finished, "test")
    recall = rows(section.tables[0], "first stage")
    points = section.charts[0].lines["dense"]
    assert points == [(n, recall["dense",][str(n)]) for n, _ in points] and len(points) == 3
    assert section.charts[1].lines.keys() == {"first"}
    assert "3 topics" in section.notes and "topics: three" in section.notes


def test_candidates_end_with_the_longest_list(analysed):
    deep = analysed(k0=30, k1=3, name="deep")
    found = rows(depth(deep, "test").tables[1], "candidates")
    assert [number for (number,) in found] == [5, 10, 20]


def test_a_run_over_a_larger_collection_is_marked(outside):
    section = depth(outside[0], "test")
    found = rows(section.tables[0], "first stage")
    assert set(found) == {("own",), ("second",), ("given *",), ("other *",)}
    # q1 has p1 and p9 to find, q2 p1 and z1, which is not here; given: p1 p3 p5 p9, and p1.
    assert found["given *",]["4"] == pytest.approx((2 / 2 + 1 / 2) / 2)
    assert "given *" in section.charts[0].lines
    assert any(note.startswith("* a ranking of a larger collection") for note in section.notes)
