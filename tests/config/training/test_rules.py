"""A training recipe's rules, each broken alone."""

import pytest
from training_text import load

from raypipe.errors import InputError

MARGIN = ["loss.name=margin-mse", "train.docs.teacher=t.trec"]


ENCODER = ["model.preset=minilm", "loss.name=info-nce"]


TRIPLES = ["train.docs.negatives=", "train.docs.triples=t.tsv"]


PAIRS = ["train.docs.negatives=", "train.docs.pairs={runs: r.trec}"]


TEXTS = [
    "train.docs.negatives=", "train.docs.collection=", "train.docs.queries=", "train.docs.qrels=",
    "train.docs.texts=t.tsv", "collections=", "collections={other: {format: msmarco-v1, input: x}}",
    "dev.docs.collection=other",
]  # fmt: skip


def test_what_breaks_no_rule_is_taken():
    for overrides in [
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
        PAIRS,
        [*PAIRS, "model.start_saw=half of it", "train.docs.pairs.last=3"],
        TEXTS,
        ["model.head=1", "loss.name=pairwise-hinge", "loss.margin=2"],
        ["model.preset=duobert", "model.segment_row=zero"],
        ["train.docs.negatives.first=5"],
        ["train.docs.exclude=own-id"],
        [*PAIRS, "train.docs.exclude=a.csv"],
        ["resources.workers=4", "batch=4"],
        ["optimiser.warmup=49", "validate.every=1", "validate.patience=2"],
        ["validate.patience=1", "optimiser.decay=constant"],
        ["dev={}", "validate="],
        ["guard.test.qrels=g.txt"],
        ["guard.test={queries: a, qrels: b, collection: docs, leave_out_passages: true}"],
        ["model.adapter={start: minilm-mono}"],
    ]:
        assert load(*overrides).name == "mine"


def test_a_broken_rule_is_told_at_its_key_and_nothing_else_is():
    for overrides, key in [
        (["model.preset=monobrt"], "model.preset"),
        (["model.preset=monot5"], "model.preset"),
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
        ([*TEXTS, "train.docs.exclude=own-id"], "train.docs.exclude"),
        ([*TRIPLES, "train.docs.exclude=own-id"], "train.docs.exclude"),
        ([*TEXTS, "loss.name=kl"], "train.docs.texts"),
        ([*TEXTS, "collections.docs={format: msmarco-v1, input: x}"], "train.docs"),
        (["train.docs.collection="], "train.docs.collection"),
        (["train.docs.queries="], "train.docs.queries"),
        (["train.docs.triples=x"], "train.docs"),
        (["train.docs.negatives="], "train.docs"),
        (
            [*ENCODER, "loss.name=multi-label-margin", "train.docs.min_grade=2"],
            "train.docs.min_grade",
        ),
        (["train.docs.qrels="], "train.docs.qrels"),
        ([*TRIPLES, "train.docs.teacher=t"], "train.docs.teacher"),
        ([*PAIRS, "train.docs.qrels="], "train.docs.qrels"),
        ([*PAIRS, "train.docs.teacher=t"], "train.docs.teacher"),
        ([*PAIRS, "model.preset=duobert"], "train.docs.pairs"),
        ([*PAIRS, *ENCODER], "train.docs.pairs"),
        ([*PAIRS, "model.head=1", "loss.name=pairwise-hinge"], "train.docs.pairs"),
        ([*PAIRS, "train.docs.triples=t"], "train.docs"),
        (["train.docs.pairs={runs: r.trec}"], "train.docs"),
        ([*PAIRS, "train.more={collection: docs, queries: q, triples: t}"], "train"),
        ([*TEXTS, "train.docs.pairs={runs: r.trec}"], "train.docs.pairs"),
        (["loss.name=kl"], "train.docs.teacher"),
        (["train.docs.negatives.first=6"], "train.docs.negatives.last"),
        (["train.docs.negatives.above_teacher=0"], "train.docs.teacher"),
        (
            [
                "train.more={collection: docs, queries: q, triples: t}",
                "train.docs.negatives.per_example=2",
            ],
            "train",
        ),
        (["dev={}"], "dev"),
        (["validate="], "validate"),
        (["guard.test.leave_out_passages=true"], "guard.test.leave_out_passages"),
        (
            ["guard.test.leave_out_passages=true", "guard.test.qrels=x"],
            "guard.test.leave_out_passages",
        ),
        (["guard.test.collection=docs"], "guard.test.collection"),
        (
            ["collections.docs.format=python-docs", "collections.docs.input=[]"],
            "collections.docs.format",
        ),
        (["collections.docs.max_passages=5"], "collections.docs.max_passages"),
        (["loss.margin=2"], "loss.margin"),
        (["loss.judgements=0.5", "train.docs.teacher=t"], "loss.judgements"),
        ([*ENCODER, *MARGIN, "loss.judgements=0.5"], "loss.judgements"),
        (["loss.name=kl", "loss.judgements=0.5"], "loss.judgements"),
        (["loss.temperature=2"], "loss.temperature"),
        (["resources.workers=2", "resources.backend=inline"], "resources.workers"),
        (["resources.workers=5"], "resources.workers"),
        (["optimiser.warmup=51"], "optimiser.warmup"),
        (["schedule_steps=99"], "schedule_steps"),
        (["schedule_steps=100", "optimiser.decay=constant"], "schedule_steps"),
        (["validate.every=101"], "validate.every"),
        (["validate.patience=1"], "validate.patience"),
    ]:
        with pytest.raises(InputError) as caught:
            load(*overrides)
        (problem,) = caught.value.problems
        assert f": {key}: " in problem


@pytest.mark.parametrize("preset", ["monot5", "monot5-mmarco", "duot5"])
def test_a_model_that_reads_a_prompt_is_not_trained(preset):
    with pytest.raises(InputError) as caught:
        load(f"model.preset={preset}")
    assert f"'{preset}', whose models read a prompt: they are scored with and not trained" in str(
        caught.value
    )


def test_values_out_of_range_are_refused():
    for override in [
        "steps=0",
        "batch=0",
        "optimiser.rate=0",
        "optimiser.warmup=-1",
        "dropout=1.5",
        "loss.margin=0",
        "optimiser.clip=-1",
        "model.head=3",
        "format=2",
        "train=",
        "train={}",
        "accumulation=0",
        "resources.max_failures=-1",
        "train.docs.negatives.runs=[]",
    ]:
        with pytest.raises(InputError):
            load(override)
