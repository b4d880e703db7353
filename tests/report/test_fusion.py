import pytest

from raypipe.evaluation.measures import evaluate
from raypipe.report.first_stages import fusion


def in_turns(one, other):
    """Both lists in turns, each passage at its first place."""
    both = [p for pair in zip(one, other, strict=False) for p in pair]
    longer = max(one, other, key=len)
    return [*dict.fromkeys([*both, *longer[min(len(one), len(other)) :]])]


def test_pairs_in_both_orders_are_merged_in_turns_and_compared_with_the_better(finished):
    section = fusion(finished, "test")
    (table,) = section.tables
    found = {tuple(row[:2]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(found) == {
        ("dense", "-"), ("given", "-"), ("dense", "given"), ("given", "dense"),
    }  # fmt: skip
    lists = {}
    for system in ("dense", "given"):
        lists[system] = {}
        for line in finished.named(finished.run(system, "test"), "test").to_pylist():
            lists[system].setdefault(line["query_id"], []).append(line["passage_id"])
    alone = {system: found[system, "-"]["RR@10"] for system in lists}
    better = max(alone, key=alone.get)
    judged = {"q1": {"p1", "p9"}, "q2": {"p7"}, "q3": {"p3"}}
    for one, other in (("dense", "given"), ("given", "dense")):
        row, reciprocal, recall = found[one, other], [], []
        for query, relevant in judged.items():
            merged = in_turns(lists[one][query], lists[other][query])
            at = [rank for rank, p in enumerate(merged[:10], 1) if p in relevant]
            reciprocal.append(1 / at[0] if at else 0)
            recall.append(sum(p in relevant for p in merged[:5]) / len(relevant))
        assert row["RR@10"] == pytest.approx(sum(reciprocal) / 3)
        assert row["R@5"] == pytest.approx(sum(recall) / 3)
        whole = [
            sum(p in in_turns(lists[one][q], lists[other][q]) for p in ps) / len(ps)
            for q, ps in judged.items()
        ]
        assert row["R@40"] == pytest.approx(sum(whole) / 3)
        assert row["better alone"] == better
        assert row["difference"] == pytest.approx(row["RR@10"] - alone[better])
        assert row["low"] <= row["difference"] <= row["high"] and 0 < row["p"] <= 1
    dense = finished.named(finished.run("dense", "test"), "test")
    means = evaluate(dense, finished.judgements("test"), ["RR@10"]).mean
    assert means["RR@10"] == alone["dense"]


def test_a_run_over_a_larger_collection_is_filtered_before_it_is_merged_and_marked(outside):
    section = fusion(outside[0], "test")
    (table,) = section.tables
    found = {tuple(row[:2]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(found) == 4 + 4 * 3 and {name for name, _ in found} == {
        "own", "second", "given *", "other *",
    }  # fmt: skip
    # given without z0: q1 p1 p3 p5 p9, q2 p1; in turns with second's q1 p0 p1 p9, q2 p1. q1 has
    # p1 and p9 to find, q2 p1 and z1, which is not here. Only q1's merge p1 p0 p3 p9 is longer.
    row = found["given *", "second"]
    assert row["RR@10"] == 1 and row["R@5"] == pytest.approx((2 / 2 + 1 / 2) / 2)
    assert row["better alone"] == "given *" and row["difference"] == 0
    assert found["second", "given *"]["RR@10"] == pytest.approx((1 / 2 + 1) / 2)
    stars = [note for note in section.notes if note.startswith("* a ranking of a larger")]
    lost = [note for note in section.notes if "were left out" in note]
    assert len(stars) == 1 and len(lost) == 2
    assert lost[0].startswith("given ranks all of it, not this collection: 3 of its 8 lines")


def test_without_such_a_run_nothing_is_marked(finished):
    section = fusion(finished, "test")
    assert "*" not in str(section.tables[0].rows) + str(section.notes)
