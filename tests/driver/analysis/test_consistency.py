import pytest

from raypipe.driver.analysis.consistency import consistency
from raypipe.errors import InputError


def test_the_share_of_the_first_passages_that_the_reference_has(finished, tmp_path):
    ranked = {}
    for line in finished.named(finished.run("dense", "test"), "test").to_pylist():
        ranked.setdefault(line["query_id"], []).append(line["passage_id"])
    reference = tmp_path / "reference.trec"
    lines = [f"q1 Q0 {p} {n} {9 - n} x\n" for n, p in enumerate(ranked["q1"][1:8:2], 1)]
    lines += [f"q2 Q0 {p} {n} {9 - n} x\n" for n, p in enumerate(ranked["q2"][:6], 1)]
    reference.write_text("".join(lines))
    section = consistency(finished, "test", reference)
    (table,) = section.tables
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {"dense", "given"} and rows["dense"]["queries"] == 2
    # q1: ranks 2, 4, 6, 8 are in the reference; q2: ranks 1 to 6.
    assert rows["dense"]["5"] == pytest.approx((2 / 5 + 5 / 5) / 2)
    assert rows["dense"]["10"] == pytest.approx((4 / 10 + 6 / 10) / 2)
    assert "20" in rows["dense"] and rows["given"]["20"] is None
    assert section.charts[0].lines["dense"][0] == (5, rows["dense"]["5"])


def test_a_reference_without_a_common_query_is_refused(finished, tmp_path):
    reference = tmp_path / "other.trec"
    reference.write_text("z Q0 p1 1 1 x\n")
    with pytest.raises(InputError, match="no query in common"):
        consistency(finished, "test", reference)
