"""What each kind of stage tells of itself."""

import pytest

from raypipe.config.load import load_recipe
from raypipe.config.paths import places_of, relocated
from raypipe.kinds.registry import KINDS, labels_of

STAGES = """\
  old:    {do: read, runs: {test: old.trec, dev: s3://b/dev.trec}}
  mono:   {do: score, run: fused, model: encoder, k0: 9}
  pairs:  {do: score, run: mono, model: encoder, k1: 5}
  total:  {do: aggregate, pairs: pairs, method: sum}
"""


@pytest.fixture
def stages(text, tmp_path):
    return load_recipe(text.replace("evaluate:", STAGES + "evaluate:"), base=tmp_path).stages


@pytest.mark.parametrize(
    ("name", "produces", "inputs", "model"),
    [
        ("lucene", "index", (), None),
        ("embeddings", "index", (), None),
        ("bm25", "run", ("lucene",), None),
        ("dense", "run", ("embeddings",), None),
        ("fused", "run", ("bm25", "dense"), None),
        ("old", "run", (), None),
        ("mono", "run", ("fused",), "encoder"),
        ("pairs", "pairs", ("mono",), "encoder"),
        ("total", "run", ("pairs",), None),
    ],
)
def test_what_a_stage_makes_what_it_reads_and_whose_scores_it_adds_to(
    stages, name, produces, inputs, model
):
    stage = stages[name]
    assert (stage.produces, stage.inputs, stage.scores_with) == (produces, inputs, model)


def test_only_runs_that_are_read_are_files_and_their_paths_belong_to_the_base(stages, tmp_path):
    files = {name: places_of(stage) for name, stage in stages.items()}
    assert files.pop("old") == {"runs.test": f"{tmp_path}/old.trec", "runs.dev": "s3://b/dev.trec"}
    assert not any(files.values())
    for name, stage in stages.items():
        moved = relocated(stage, lambda path: f"/elsewhere/{path}")
        assert (moved == stage) is (name != "old")
    assert relocated(stages["old"], str.upper).runs["dev"] == "S3://B/DEV.TREC"


def test_a_label_is_that_of_the_stage_as_written_sound_or_not():
    assert KINDS["score"].label({"do": "score", "k1": "many"}) == "score with k1"
    assert KINDS["score"].label({"do": "score", "k1": None}) == "score"
    assert {do: kind.label({}) for do, kind in KINDS.items()} == {do: do for do in KINDS}


def test_labels_by_what_their_stages_make():
    assert labels_of("index") == ("ann", "encode", "index", "truncate")
    assert labels_of("pairs") == ("score with k1",)
    assert labels_of("run") == (
        "aggregate",
        "documents",
        "fuse",
        "passages",
        "read",
        "score",
        "search",
    )
