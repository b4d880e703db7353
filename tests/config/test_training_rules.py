"""A training recipe's rules, each broken alone, its paths and its defaults."""

from pathlib import Path

import pytest

from raypipe.config.training.load import load_training, missing_training_inputs
from raypipe.config.training.recipe import Adapter, Optimiser, TrainResources, Validate
from raypipe.errors import InputError

RECIPE = """
format: 1
name: mine
model: {start: minilm, preset: monobert}
collections:
  docs: {format: msmarco-v1, input: passages.tsv}
train:
  docs:
    collection: docs
    queries: q.tsv
    qrels: qrels.txt
    negatives: {runs: run.trec, first: 2, last: 5}
dev:
  docs: {collection: docs, queries: dq.tsv, qrels: dqrels.txt, run: drun.trec}
guard:
  test: {queries: tq.tsv}
loss: {name: cross-entropy}
steps: 100
batch: 4
optimiser: {warmup: 50}
validate: {every: 100}
"""
MARGIN = ["loss.name=margin-mse", "train.docs.teacher=t.trec"]
ENCODER = ["model.preset=minilm", "loss.name=info-nce"]
TRIPLES = ["train.docs.negatives=", "train.docs.triples=t.tsv"]
TEXTS = [
    "train.docs.negatives=", "train.docs.collection=", "train.docs.queries=", "train.docs.qrels=",
    "train.docs.texts=t.tsv", "collections=", "collections={other: {format: msmarco-v1, input: x}}",
    "dev.docs.collection=other",
]  # fmt: skip


def load(*overrides, base=Path("/r")):
    return load_training(RECIPE, overrides=overrides, base=base)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        MARGIN,
        [*MARGIN, "loss.name=kl", "loss.temperature=2"],
        [*MARGIN, "loss.judgements=0.5"],
        [*MARGIN, "train.docs.negatives.above_teacher=1"],
        ENCODER,
        [*ENCODER, "loss.temperature=0.05"],
        [*ENCODER, "loss.name=multi-label-margin"],
        [*ENCODER, "train.docs.min_grade=2"],
        TRIPLES,
        TEXTS,
        ["model.head=1", "loss.name=pairwise-hinge", "loss.margin=2"],
        ["model.preset=duobert", "model.segment_row=zero"],
        ["train.docs.negatives.first=5"],
        ["resources.workers=4", "batch=4"],
        ["optimiser.warmup=49", "validate.every=1", "validate.patience=2"],
        ["validate.patience=1", "optimiser.decay=constant"],
        ["dev={}", "validate="],
        ["guard.test.qrels=g.txt"],
        ["guard.test={queries: a, qrels: b, collection: docs, leave_out_passages: true}"],
        ["model.adapter={start: minilm-mono}"],
    ],
)
def test_what_breaks_no_rule_is_taken(overrides):
    assert load(*overrides).name == "mine"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["model.preset=monobrt"], "model.preset"),
        (["loss.name=info-nce"], "loss.name"),
        (["loss.name=pairwise-hinge"], "model.head"),
        ([*ENCODER, "model.head=1"], "model.head"),
        (["model.adapter={start: minilm}"], "model.adapter.start"),
        (["model.segment_row=copy"], "model.segment_row"),
        (["train.docs.collection=dosc"], "train.docs.collection"),
        (["dev.docs.collection=dosc"], "dev.docs.collection"),
        (["guard.test.collection=dosc", "guard.test.qrels=g"], "guard.test.collection"),
        ([*TEXTS, "train.docs.qrels=q"], "train.docs.qrels"),
        ([*TEXTS, "train.docs.teacher=q"], "train.docs.teacher"),
        ([*TEXTS, "loss.name=kl"], "train.docs.texts"),
        ([*TEXTS, "collections.docs={format: msmarco-v1, input: x}"], "train.docs"),
        (["train.docs.collection="], "train.docs.collection"),
        (["train.docs.queries="], "train.docs.queries"),
        (["train.docs.triples=x"], "train.docs"),
        (["train.docs.negatives="], "train.docs"),
        ([*ENCODER, "loss.name=multi-label-margin", "train.docs.min_grade=2"],
         "train.docs.min_grade"),
        (["train.docs.qrels="], "train.docs.qrels"),
        ([*TRIPLES, "train.docs.teacher=t"], "train.docs.teacher"),
        (["loss.name=kl"], "train.docs.teacher"),
        (["train.docs.negatives.first=6"], "train.docs.negatives.last"),
        (["train.docs.negatives.above_teacher=0"], "train.docs.teacher"),
        (["train.more={collection: docs, queries: q, triples: t}",
          "train.docs.negatives.per_example=2"], "train"),
        (["dev={}"], "dev"),
        (["validate="], "validate"),
        (["guard.test.leave_out_passages=true"], "guard.test.leave_out_passages"),
        (["guard.test.leave_out_passages=true", "guard.test.qrels=x"],
         "guard.test.leave_out_passages"),
        (["guard.test.collection=docs"], "guard.test.collection"),
        (["collections.docs.format=python-docs", "collections.docs.input=[]"],
         "collections.docs.format"),
        (["collections.docs.max_passages=5"], "collections.docs.max_passages"),
        (["loss.margin=2"], "loss.margin"),
        (["loss.judgements=0.5", "train.docs.teacher=t"], "loss.judgements"),
        ([*ENCODER, *MARGIN, "loss.judgements=0.5"], "loss.judgements"),
        (["loss.name=kl", "loss.judgements=0.5"], "loss.judgements"),
        (["loss.temperature=2"], "loss.temperature"),
        (["resources.workers=2", "resources.backend=inline"], "resources.workers"),
        (["resources.workers=5"], "resources.workers"),
        (["optimiser.warmup=51"], "optimiser.warmup"),
        (["validate.every=101"], "validate.every"),
        (["validate.patience=1"], "validate.patience"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_told_at_its_key_and_nothing_else_is(overrides, key):
    with pytest.raises(InputError) as caught:
        load(*overrides)
    (problem,) = caught.value.problems
    assert f": {key}: " in problem


def test_paths_belong_to_the_recipes_folder(tmp_path):
    found = load("stores=stores", "guard.test.queries=/abs/t.tsv", "model.start=mine/model",
                 "collections.more={format: ir-datasets, input: [nf/corpus]}",
                 "model.adapter={start: an/adapter}", base=tmp_path)  # fmt: skip
    assert found.collections["docs"].input == (str(tmp_path / "passages.tsv"),)
    assert found.train["docs"].negatives.runs == (str(tmp_path / "run.trec"),)
    assert found.dev["docs"].qrels == str(tmp_path / "dqrels.txt")
    assert found.guard["test"].queries == "/abs/t.tsv"
    assert found.model.start == str(tmp_path / "mine" / "model")
    assert found.model.adapter.start == str(tmp_path / "an" / "adapter")
    assert found.collections["more"].input == ("nf/corpus",)
    assert found.stores == str(tmp_path / "stores")
    assert load("stores=s3://b/x").stores == "s3://b/x"
    assert len(found.overrides) == 5
    assert load().model.start == "minilm"


def test_every_input_that_is_not_there_is_told(tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE)
    found = load_training(recipe, overrides=["stores=gone"])
    missing = missing_training_inputs(found)
    assert [line.split(":")[0] for line in missing] == [
        "collections.docs.input.0", "train.docs.queries", "train.docs.qrels",
        "train.docs.negatives.runs.0", "dev.docs.queries", "dev.docs.qrels", "dev.docs.run",
        "guard.test.queries",
    ]  # fmt: skip
    for name in ("passages.tsv", "q.tsv", "qrels.txt", "run.trec", "dq.tsv", "dqrels.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "drun.trec").write_text("x")
    (tmp_path / "tq.tsv").write_text("x")
    assert missing_training_inputs(found) == []
    other = load_training(recipe, overrides=["model.start=gone", "model.adapter={start: gone2}"])
    told = missing_training_inputs(other)
    assert told[0].startswith("model.start: ") and told[1].startswith("model.adapter.start: ")
    packaged = load_training(recipe, overrides=["model.adapter={start: minilm-mono}"])
    assert missing_training_inputs(packaged) == []


def test_defaults_are_those_of_the_papers():
    assert Optimiser() == Optimiser(
        rate=3e-6, warmup=10_000, decay="linear", weight_decay=0.01, beta1=0.9, beta2=0.999,
        eps=1e-6, bias_correction=False, clip=1.0,
    )  # fmt: skip
    assert Adapter() == Adapter(rank=8, alpha=16.0, start=None)
    assert Validate(every=5) == Validate(every=5, measure="nDCG@10", patience=None)
    assert TrainResources() == TrainResources(
        workers=1, device="auto", backend="ray", threads="auto", budget_tokens="auto",
        precision="fp32", recompute=False, beside=True, max_failures=3,
    )  # fmt: skip
    found = load()
    assert (found.accumulation, found.dropout, found.seed) == (1, 0.1, 0)
    assert found.checkpoint_every == 5000 and found.model.head == 2
    assert (found.loss.margin, found.loss.temperature, found.loss.judgements) == (1.0, 1.0, 0.0)
    own = found.train["docs"]
    assert (own.min_grade, own.negatives.per_example, own.negatives.examples) == (1, 1, 1)
    assert found.dev["docs"].k == 1000 and not found.guard["test"].leave_out_passages
    wide = load("train.docs.negatives={runs: [a, b]}").train["docs"].negatives
    assert (wide.first, wide.last, wide.relevant_last, len(wide.runs)) == (1, 1000, None, 2)


@pytest.mark.parametrize(
    "override",
    ["steps=0", "batch=0", "optimiser.rate=0", "optimiser.warmup=-1", "dropout=1.5",
     "loss.margin=0",
     "optimiser.clip=-1", "model.head=3", "format=2", "train=", "train={}", "accumulation=0",
     "resources.max_failures=-1", "train.docs.negatives.runs=[]"],
)  # fmt: skip
def test_values_out_of_range_are_refused(override):
    with pytest.raises(InputError):
        load(override)
