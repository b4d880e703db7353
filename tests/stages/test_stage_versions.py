"""Versions of what the tests beside this one do not run: see also VERSIONS in conftest.py."""

from raypipe.models.folder.loading import resolve_model
from raypipe.stages.bm25 import Bm25Stage, IndexStage
from raypipe.stages.scoring.score import score_base
from raypipe.training import job
from raypipe.training.examples import stage as examples_stage


def test_lucenes_stages_and_a_table_of_scores_have_the_versions_they_were_stored_with(
    stores, tiny_mono
):
    passages, queries = stores.passages(["a"]), stores.queries("b")
    index = IndexStage(passages)
    search = Bm25Stage("bm25", passages, passages, queries, 0.9, 0.4, 10)
    scores = score_base(resolve_model(str(tiny_mono)), passages, queries)
    versions = {spec.stage: spec.semantics for spec in (index.spec, search.spec, scores)}
    assert versions == {"index": 2, "bm25": 1, "scores": 2}


def test_a_training_and_its_examples_have_theirs():
    assert (job.SEMANTICS, examples_stage.SEMANTICS) == (3, 3)
