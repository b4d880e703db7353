"""Every stage: its shards, its first beat, its version (see VERSIONS in given_stores.py)."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from given_scores import Given
from sparse_models import make_splade

from raypipe import schema
from raypipe.driver.forecast.forecast import Walk
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.names import of_stage
from raypipe.stages.bm25 import Bm25Stage, IndexStage
from raypipe.stages.encode import EncodeStage
from raypipe.stages.fuse import fuse_stage
from raypipe.stages.open_model import open_model
from raypipe.stages.scoring.candidates import Request, Scored
from raypipe.stages.scoring.rerank import aggregate_stage, pairs_stage, rerank_stage
from raypipe.stages.scoring.score import score_base
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.sparse import SparsePartsStage, SparseStage
from raypipe.stages.stage import Expected, Needs, Sizing, Stage, ranges, sum_of
from raypipe.stages.tables import Sides
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.training import examples_stage, job


def test_shards_are_at_most_so_large_as_equal_as_can_be_and_never_none():
    assert ranges(7, 3) == [Shard(0, 0, 2), Shard(1, 2, 4), Shard(2, 4, 7)]
    assert ranges(6, 3) == [Shard(0, 0, 3), Shard(1, 3, 6)]
    assert ranges(3, 3) == [Shard(0, 0, 3)]
    assert ranges(0, 3) == [Shard(0, 0, 0)]


def test_a_stage_needs_one_core_and_no_gpu_unless_it_says_so():
    assert Needs() == Needs(num_cpus=1.0, num_gpus=0.0, threads=1, jvm=False)
    assert Sizing() == Sizing(
        num_actors=1, shard_tokens=250_000, shard_rows=100_000, shard_queries=1_000
    )


@pytest.mark.parametrize(("num_rows", "size"), [(0, 5), (1, 5), (5, 5), (6, 5), (17, 4), (100, 1)])
def test_ranges_hold_every_row_once_and_are_as_equal_as_can_be(num_rows, size):
    shards = ranges(num_rows, size)
    assert [row for s in shards for row in range(s.start, s.stop)] == list(range(num_rows))
    assert [s.index for s in shards] == list(range(len(shards)))
    sizes = [s.num_rows for s in shards]
    assert max(sizes) <= size and max(sizes) - min(sizes) <= 1
    assert len(shards) == max(1, -(-num_rows // size))


def test_lucenes_stages_and_a_table_of_scores_have_the_versions_they_were_stored_with(
    stores, tiny_mono
):
    passages, queries = stores.passages(["a"]), stores.queries("b")
    index = IndexStage(passages)
    search = Bm25Stage("bm25", Sides(queries, passages), passages, 0.9, 0.4, 10)
    scores = score_base(resolve_model(str(tiny_mono)), passages, queries)
    versions = {spec.stage: spec.semantics for spec in (index.spec, search.spec, scores)}
    assert versions == {"index": 2, "bm25": 1, "scores": 2}


def test_vectors_and_impacts_have_theirs(stores, tiny_model, tmp_path):
    splade = resolve_model(str(make_splade(tmp_path / "splade")))
    passages, queries = stores.tokens([[5, 6]]), stores.tokens([[5]])
    vectors = EncodeStage(passages, resolve_model(str(tiny_model)), "passage")
    impacts = SparseStage(passages, splade, "passage")
    search = SparsePartsStage("sparse", passages, queries, 10, splade.dim)
    versions = {each.spec.stage: each.spec.semantics for each in (vectors, impacts, search)}
    assert versions == {"encode": 2, "sparse": 1, "sparse-parts": 1}
    assert vectors.spec.reuse_key != impacts.spec.reuse_key
    scaled = replace(impacts, model=resolve_model(splade.path, settings={"impact_scale": 51.2}))
    specs = [each.spec for each in (impacts, scaled)]
    assert [each.params["dtype"] for each in specs] == ["impacts of 100", "impacts of 51.2"]
    assert specs[0].fingerprint() != specs[1].fingerprint()
    assert "query_table" not in impacts.spec.params


def test_a_training_and_its_examples_have_theirs():
    assert (job.SEMANTICS, examples_stage.SEMANTICS) == (3, 6)


BASE = StageSpec("scores", 1)


@pytest.fixture
def made(stores):
    run = stores.run([(0, 1, 2.0), (0, 2, 1.0)])
    lines = [[0, 0], [1, 2], [2, 1]]
    facts = [{"rows": 2, "first_query": 0, "last_query": 0, "failed": 0}]
    pairs = stores.tables(schema.SCORES, [*lines, [0.25, 0.75]], ranges=[(0, 1)], facts=facts)
    singles = [[0, 0], [1, 2], [-1, -1]]
    alone = stores.tables(schema.SCORES, [*singles, [1.0, 2.0]], ranges=[(0, 1)], facts=facts)
    k0, k1 = Request(k0=2), Request(k1=2)
    vectors, one = stores.vectors(np.ones((2, 2)), np.ones((1, 2))), stores.sides(1)
    first, both = Given((0, 1, -1), (0, 2, -1)), Given((0, 1, 2), (0, 2, 1))
    return {
        "sides": one,
        "rerank": rerank_stage("m", run, BASE, k0, "keep", one, Scored(first, alone)),
        "pairs": pairs_stage("d", run, BASE, k1, one, Scored(both, pairs)),
        "aggregate": aggregate_stage("a", run, pairs, k1, "sum", "keep", one),
        "fuse": fuse_stage("f", {"a": run, "b": run}, one, "rrf", 5),
        "merge": merge_stage("s", run, one, 5),
        "parts": PartsStage("s", vectors, vectors, 5),
    }


@pytest.mark.parametrize(
    ("name", "produces"),
    [
        ("rerank", "run"),
        ("pairs", "pairs"),
        ("aggregate", "run"),
        ("fuse", "run"),
        ("merge", "run"),
    ],
)
def test_the_spec_of_a_ranking_says_what_it_is_and_names_its_sides_and_where_they_lie(
    made, name, produces
):
    spec = made[name].spec
    assert spec.produces == produces
    for side, stored in made["sides"].stores().items():
        assert (spec.inputs[side], spec.origins[side]) == (stored.identity, stored.origin)
    assert spec.inputs.keys() == spec.origins.keys()


def test_the_runs_that_are_fused_are_inputs_by_their_names(made):
    assert sorted(made["fuse"].spec.inputs) == ["collection", "queries", "run.a", "run.b"]


@pytest.mark.parametrize(
    ("name", "beats"),
    [("rerank", 1), ("pairs", 1), ("aggregate", 1), ("fuse", 1), ("merge", 1), ("parts", 4)],
)
def test_a_stage_beats_before_it_reads(stores, made, name, beats):
    told = []
    stores.finished(made[name], Sizing(num_actors=1), beats=told)
    assert told == [[]] * beats


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_worker_that_does_not_compute_in_the_models_precision_refuses_it(
    tiny_mono, monkeypatch, precision
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    model = resolve_model(str(tiny_mono)).in_precision(precision)
    told = f"or that in the settings of {tiny_mono}: {precision}: expected one of fp32, in which"
    with pytest.raises(InputError, match=told):
        open_model(None, model, SimpleNamespace(device="cpu"), None)


class Plain(Stage):
    """Seven rows of 100 bytes in shards of at most three."""

    def __init__(self, produces):
        """With what it produces."""
        self.spec = StageSpec("plain", 1, {}, {}, produces)

    def shards(self, sizing):
        """See Stage."""
        return ranges(7, sizing.shard_rows)

    def estimated_bytes(self, num_rows, num_planned):
        """See Stage."""
        return 100 * num_rows

    def open(self, site):
        """Nothing is computed."""
        raise AssertionError


class Saying(Plain):
    """It says two facts."""

    def expected(self, expectations):
        """See Stage."""
        shards = self.shards(expectations.sizing)
        return Expected(shards=shards, num_bytes=10.0, facts={"pieces": 10, "kind": "a"})


@pytest.fixture
def walk(tmp_path):
    stores, aside = PosixStorage(tmp_path / "stores"), PosixStorage(tmp_path / "aside")
    return Walk(stores, lambda name, stage: 1 / 0, Sizing(shard_rows=3), aside)


def test_a_stage_that_says_nothing_has_its_plan_and_bytes_and_a_run_full_lists(walk):
    name = of_stage("plain", "dev")
    stored = walk.ensure(name, Plain("vectors"))
    line = walk.lines[name]
    assert (line.rows, line.shards, line.bytes, line.seconds, line.note) == (7, 3, 700, 0, "")
    assert (stored.num_rows, stored.num_bytes) == (7, 700)
    name = of_stage("run", "dev")
    stored = walk.ensure(name, Plain("run"))
    assert sum_of("rows", stored) == 7 * 1000
    assert walk.lines[name].note == "plain: its time is not forecast, and its lines are the most"


def test_whole_numbers_are_shared_out_by_rows_without_a_rest(walk):
    stored = walk.ensure(of_stage("says", "dev"), Saying("tokens"))
    facts = [record.facts for record in stored.manifest.records]
    assert [each["pieces"] for each in facts] == [3, 3, 4] and sum_of("pieces", stored) == 10
    assert {each["kind"] for each in facts} == {"a"}
    assert not walk.expectations.has(stored)
