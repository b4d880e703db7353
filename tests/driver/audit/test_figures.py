"""The figures of a stage from given scores, by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from given_stores import Stores

from raypipe import schema
from raypipe.driver.audit.figures import figures
from raypipe.driver.audit.stores import Audited
from raypipe.driver.audit.told import audit_table
from raypipe.driver.recipe.system import System
from raypipe.models.folder.loading import resolve_model
from raypipe.stages.audit.sample import Limits, Scored
from raypipe.stages.audit.stage import AuditStage
from raypipe.stages.tables import Sides

OWN = [(0, 0, 3.0), (0, 1, 2.0), (1, 0, 3.0), (1, 2, 2.5), (2, 1, 1.0)]
FP32 = [(0, 0, 1.5), (0, 1, 2.0), (1, 0, 3.0), (1, 2, 2.5), (2, 1, np.nan)]
QRELS = [("q0", "p0", 1), ("q1", "p0", 1), ("q2", "p1", 1)]


@pytest.fixture
def found(tmp_path, tiny_mono):
    """A function that gives the figures with these judgements."""
    stores = Stores(tmp_path)
    sides = Sides(stores.queries("a", "b", "c"), stores.passages(["x", "y", "z"]))
    run = stores.run(OWN, scored_by="mono")
    known = [line for line in FP32 if np.isfinite(line[2])]
    queries, passages, scores = zip(*known, strict=True)
    table = [queries, passages, [-1] * len(known), scores]
    again = stores.tables(schema.SCORES, table, ranges=[(0, 3)])
    scored = Scored(run, "mono", first=10)
    stage = AuditStage(scored, resolve_model(str(tiny_mono)), sides, Limits(9, 99))
    system = System("mono", "run", run)
    basis = SimpleNamespace(queries=lambda name: sides.queries, collection=lambda: sides.collection)

    def made(qrels, **how):
        judged = pa.table([*map(list, zip(*qrels, strict=True))], schema=schema.QRELS)
        one = Audited(replace(system, **how), "bf16", stage, again, scored)
        return figures(basis, "test", one, judged, ["RR@10"])

    made.stores = stores
    return made


@pytest.mark.slow
def test_a_measure_is_the_stages_own_less_that_in_fp32(found):
    """Query 0 has its passage first in bf16 and second in fp32: 1 - 1/2; the others are equal."""
    told = found(QRELS)
    assert (told.judged, told.of_queries) == (3, 3)
    assert told.measures["RR@10"].mean == pytest.approx(0.5 / 3)
    assert told.measures["RR@10"].low == 0.0 and told.measures["RR@10"].high == pytest.approx(0.5)


def test_a_score_that_fp32_has_not_is_lacking_and_keeps_its_place_in_the_measure(found):
    told = found(QRELS).found
    assert (told.queries, told.scores, told.lacking) == (3, 4, 1)
    assert told.largest == 1.5 and told.changed == 2  # query 0, and query 2, whose list is empty
    assert told.tau == pytest.approx((-1 + 1) / 2)
    table = audit_table("test", [found(QRELS)], ["RR@10"])
    assert "- mono: 1 scores are finite in only one of the two" in table


def test_one_judged_query_has_no_interval(found):
    told = found(QRELS[:1])
    assert (told.judged, told.measures) == (1, {})
    assert "RR@10" not in audit_table("test", [told], ["RR@10"])
    assert found(QRELS[:2]).measures["RR@10"].mean == pytest.approx(0.25)


def test_of_a_blend_the_scores_in_fp32_are_blended_too(found):
    """z of both passages of query 0 over its first two is 1 and 0, of query 1's as well."""
    first = found.stores.run([(0, 0, 9.0), (0, 1, 5.0), (1, 0, 4.0), (1, 2, 3.0), (2, 1, 1.0)])
    params = {"blend": {"weight": 1.5, "scale": "raw"}, "k0": 2}
    blended = SimpleNamespace(spec=SimpleNamespace(params=params))
    told = found(QRELS, stored=blended, ranked=first).found
    # In fp32: 1.5 + 1.5 and 2 of query 0, as 3 and 2 in bf16; 3 + 1.5 and 2.5 of query 1.
    assert told.largest == 1.5 and told.changed == 1  # query 2, whose list is empty
