"""The rules of a loss and of what the sets bring for it, each broken alone."""

from pathlib import Path

import pytest
import yaml
from training_text import load

from raypipe.errors import InputError

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
MARGIN = ["loss.name=margin-mse", "train.docs.teacher=t.trec"]
LISTS = ["loss.name=listwise"]
BLEND = [*LISTS, "loss.blend=6", "train.docs.blend={runs: [r.trec]}"]
SPLADE = ["model.preset=splade", "loss.name=info-nce"]
OWN = ["model.preset=", "loss.name=info-nce"]
FLOPS = "loss.flops={queries: 1, passages: 1, warmup: 9}"
TEACHER = ["train.docs.teacher=t.trec"]
ALONE = ["train.docs.qrels=", "train.docs.teacher=t.trec"]
TRIPLES = ["train.docs.negatives=", "train.docs.triples=t.tsv"]
DOCUMENTS = ["train.docs.documents={passages: 9}", "collections.docs.split={by: words}"]
TEXTS = [
    "train.docs.negatives=", "train.docs.collection=", "train.docs.queries=", "train.docs.qrels=",
    "train.docs.texts=t.tsv", "collections=", "collections={other: {format: msmarco-v1, input: x}}",
    "dev.docs.collection=other",
]  # fmt: skip


@pytest.mark.parametrize(
    "overrides",
    [
        LISTS,
        [*BLEND, "train.docs.blend.none=false", "train.docs.blend.last=50"],
        [*LISTS, "train.docs.teacher=t.trec", "loss.teacher_weight=0.5", "loss.temperature=2"],
        [*LISTS, *ALONE, "loss.teacher_weight=0.5"],
        [*ALONE, "loss.name=kl"],
        [*ALONE, "loss.name=mse", "loss.teacher_temperature=2"],
        [*LISTS, *TRIPLES],
        [*LISTS, "model.head=1"],
        [*SPLADE, "loss.flops={passages: 0.1, warmup: 100}", "loss.l1={queries: 1, warmup: 0}"],
        [*SPLADE, *TEACHER, "loss.name=kl", "loss.flops={queries: 0.1, passages: 1, warmup: 5}"],
        [*OWN, "model.settings={kind: encoder, pooling: splade}", FLOPS],
        [*OWN, FLOPS],  # the start's own settings are not known yet
    ],
)
def test_what_breaks_no_rule_is_taken(overrides):
    assert load(*overrides).name == "mine"


def test_a_broken_rule_is_told_at_its_key():
    for overrides, key in [
        ([*LISTS, *ALONE], "train.docs.qrels"),
        ([*MARGIN, "train.docs.qrels="], "train.docs.qrels"),
        (["loss.name=kl", *ALONE, "train.docs.teacher="], "train.docs.qrels"),
        (
            [*ALONE, "loss.name=kl", "train.docs.negatives.relevant_last=9"],
            "train.docs.negatives.relevant_last",
        ),
        (
            [*ALONE, "loss.name=kl", "train.docs.negatives.above_teacher=1"],
            "train.docs.negatives.above_teacher",
        ),
        ([*LISTS, "loss.teacher_weight=0.5"], "loss.teacher_weight"),
        ([*MARGIN, "loss.teacher_weight=0.5"], "loss.teacher_weight"),
        ([*LISTS, "loss.blend=6"], "loss.blend"),
        (["loss.blend=6", "train.docs.blend={runs: r}"], "loss.blend"),
        ([*LISTS, "train.docs.blend={runs: [r.trec]}"], "train.docs.blend"),
        ([*BLEND, *TRIPLES], "train.docs.blend"),
        ([*BLEND, *TEXTS], "train.docs.blend"),
        ([*BLEND, *DOCUMENTS], "train.docs.blend"),
        (["loss.name=kl", *ALONE, *DOCUMENTS], "train.docs.qrels"),
        ([*LISTS, "model.preset=duobert"], "loss.name"),
        ([*LISTS, "model.preset=minilm"], "loss.name"),
        ([*TEACHER, "loss.name=mse", "model.preset=minilm"], "loss.name"),
        ([*TEACHER, "loss.name=mse", "model.preset=duobert"], "loss.name"),
        (["loss.name=mse"], "train.docs.teacher"),
        ([*MARGIN, "loss.temperature=2"], "loss.temperature"),
        (["loss.teacher_temperature=2"], "loss.teacher_temperature"),
        ([*TEACHER, "loss.teacher_temperature=2"], "loss.teacher_temperature"),
        ([FLOPS], "loss.flops"),
        (["model.preset=minilm", "loss.name=info-nce", FLOPS], "loss.flops"),
        ([*OWN, "model.settings={kind: encoder, pooling: mean}", FLOPS], "loss.flops"),
        (["loss.l1={queries: 1, warmup: 0}"], "loss.l1"),
        ([*SPLADE, "loss.l1={warmup: 0}"], "loss.l1"),
        ([*SPLADE, "loss.flops={passages: 1, warmup: 101}"], "loss.flops.warmup"),
        ([*SPLADE, "loss.flops={passages: 1, warmup: -1}"], "loss.flops.warmup"),
        ([*SPLADE, "loss.flops={passages: -1, warmup: 0}"], "loss.flops.passages"),
        ([*SPLADE, "loss.flops={passages: 1}"], "loss.flops.warmup"),
        ([*SPLADE, "loss.name=cross-entropy"], "loss.name"),
    ]:
        with pytest.raises(InputError) as caught:
            load(*overrides)
        assert len([p for p in caught.value.problems if f": {key}: " in p]) == 1


def test_a_weight_below_0_is_refused():
    for weight in ("blend", "teacher_weight"):
        with pytest.raises(InputError, match=f"loss.{weight}"):
            load(*BLEND, f"loss.{weight}=-1")


def test_the_recipe_of_the_page_on_models_is_one():
    """Its part about the loss and the sets, in place of those of another recipe."""
    (block,) = PAGE.read_text().split("    loss: ")[1:]
    lines = [f"    loss: {block}".split("\n\n")[0]]
    shown = yaml.safe_load("\n".join(lines).replace("\n    ", "\n").strip())
    overrides = [f"train.{name}={yaml.safe_dump(each, default_flow_style=True, width=999)}".strip()
                 for name, each in shown["train"].items()]  # fmt: skip
    loss = [f"loss.{key}={value}" for key, value in shown["loss"].items()]
    found = load("train.docs=", "train={}", *overrides, *loss)
    assert set(found.train) == {"labelled", "unlabelled"} and found.loss.blend == 6
