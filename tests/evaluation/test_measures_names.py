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
