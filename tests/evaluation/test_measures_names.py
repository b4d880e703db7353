import logging

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.measures import evaluate


def test_ten_names_are_shown_and_of_eleven_that_there_are_more(caplog):
    def measured(count):
        lines = [(f"q{n:02}", "a", 1) for n in range(count)]
        qrels = pa.table(
            [list(c) for c in zip(("x", "a", 1), *lines, strict=True)], schema=schema.QRELS
        )
        run = pa.table([["x"], ["a"], [1], [1.0]], schema=schema.RUN_FILE)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            evaluate(run, qrels, ["RR"])
        return caplog.text

    assert "count 0: q00, " in measured(10) and "q09\n" in measured(10)
    assert "q09, ...\n" in measured(11) and "q10" not in measured(11)


def test_a_repeated_judgement_of_one_grade_is_none_to_choose_from():
    qrels = pa.table([["q"] * 3, ["a"] * 3, [1, 1, 2]], schema=schema.QRELS)
    run = pa.table([["q"], ["a"], [1], [1.0]], schema=schema.RUN_FILE)
    with pytest.raises(InputError, match=r"grades \[1, 1, 2\]"):
        evaluate(run, qrels, ["RR"])
    assert evaluate(run, qrels.slice(0, 2), ["RR"]).mean == {"RR": 1.0}


def test_two_grades_of_a_passage_are_found_behind_any_number_of_harmless_repeats():
    repeated = [(f"q{n:02}", "a", 1) for n in range(60) for _ in range(2)]
    lines = [*repeated, *((f"x{n:02}", "a", grade) for n in range(60) for grade in (0, 1))]
    columns = [list(column) for column in zip(*lines, strict=True)]
    run = pa.table([["q00"], ["a"], [1], [1.0]], schema=schema.RUN_FILE)
    with pytest.raises(InputError) as refused:
        evaluate(run, pa.table(columns, schema=schema.QRELS), ["RR"])
    assert [*refused.value.problems] == [
        f"qrels: query x{n:02}, passage a: grades [0, 1]; keep one" for n in range(10)
    ]
