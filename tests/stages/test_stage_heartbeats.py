"""Every stage is heard of: it beats before its first work, whatever its shard."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.stages.fuse import FuseStage
from raypipe.stages.scoring.candidates import Part, Request
from raypipe.stages.scoring.rerank import AggregateStage, PairsStage, RerankStage
from raypipe.stages.search import MergeStage, PartsStage
from raypipe.stages.stage import Sizing
from raypipe.storage.spec import StageSpec

BASE = StageSpec("scores", 1)


@pytest.fixture
def made(stores):
    run = stores.run([(0, 1, 2.0), (0, 2, 1.0)])
    lines = [[0, 0], [1, 2], [2, 1]]
    facts = [{"rows": 2, "first_query": 0, "last_query": 0, "failed": 0}]
    candidates = stores.tables(schema.CANDIDATES, lines, ranges=[(0, 1)], facts=facts)
    pairs = stores.tables(schema.SCORES, [*lines, [0.25, 0.75]], ranges=[(0, 1)], facts=facts)
    singles = [[0, 0], [1, 2], [-1, -1]]
    alone = stores.tables(schema.SCORES, [*singles, [1.0, 2.0]], ranges=[(0, 1)], facts=facts)
    k0, k1 = Request(k0=2), Request(k1=2)
    vectors = stores.vectors(np.ones((2, 2)), np.ones((1, 2)))
    return {
        "rerank": RerankStage("m", run, BASE, k0, "keep", 1, (Part(candidates, alone),)),
        "pairs": PairsStage("d", run, BASE, k1, 1, (Part(candidates, pairs),)),
        "aggregate": AggregateStage("a", run, pairs, k1, "sum", "keep", 1),
        "fuse": FuseStage("f", {"a": run, "b": run}, 1, "rrf", 5),
        "merge": MergeStage("s", run, 1, 5),
        "parts": PartsStage("s", vectors, vectors, 5),
    }


@pytest.mark.parametrize(
    ("name", "beats"),
    [("rerank", 1), ("pairs", 1), ("aggregate", 1), ("fuse", 1), ("merge", 1), ("parts", 2)],
)
def test_a_stage_beats_before_it_reads(stores, made, name, beats):
    told = []
    stores.finished(made[name], Sizing(num_actors=1), beats=told)
    assert told == [[]] * beats
