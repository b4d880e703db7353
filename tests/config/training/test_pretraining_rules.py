"""What a pre-training's recipe may say."""

import pytest
import yaml

from raypipe.config.load import load_training
from raypipe.errors import InputError

BODY = {
    "format": 1, "name": "p", "model": {"start": "minilm", "preset": "bert"},
    "collections": {"docs": {"format": "msmarco-v1", "input": "c.tsv"}},
    "train": {"docs": {"collection": "docs"}}, "loss": {"name": "masked-language-model"},
    "masking": {"next_sentence": False, "held_out": 5}, "steps": 100, "batch": 4,
    "optimiser": {"warmup": 5}, "validate": {"every": 50, "measure": "masked_word_loss"},
}  # fmt: skip


def load(**changes):
    body = {**BODY, **changes}
    text = yaml.safe_dump({name: value for name, value in body.items() if value is not None})
    return load_training(text)


def test_the_papers_values_are_the_defaults():
    found = load(masking={"next_sentence": True}, validate=None)
    assert (found.masking.share, found.masking.joined, found.masking.held_out) == (0.15, True, 0)
    assert found.model.weights == "read" and not found.model.draw_missing
    assert load().masking.held_out == 5


MONO = {"start": "minilm", "preset": "monobert"}


def test_a_broken_rule_is_told():
    for changes, told in [
        ({"masking": None, "validate": None}, "masking: missing; write masking: {next_sentence"),
        ({"masking": {"held_out": 5}}, "masking.next_sentence"),
        ({"masking": {"next_sentence": False}}, "masking.held_out: missing; validate needs"),
        (
            {"masking": {"next_sentence": False, "share": 1.0, "held_out": 1}},
            "masking.share: expected a number below 1; found 1.0",
        ),
        ({"validate": None}, "validate: missing; it says when to measure on masking.held_out"),
        ({"validate": {"every": 50}}, "expected masked_word_loss in a pre-training, found nDCG@10"),
        ({"loss": {"name": "cross-entropy"}}, "expected a loss of pretrained models"),
        ({"model": {**BODY["model"], "query_limit": 4}}, "model.query_limit: a pre-training has"),
        ({"model": {**BODY["model"], "adapter": {}}}, "model.adapter: a pre-training has no"),
        ({"model": {**BODY["model"], "head": 1}}, "model.head: a pre-training has its own heads"),
        (
            {"model": {**BODY["model"], "weights": "random", "draw_missing": True}},
            "every weight is drawn",
        ),
        (
            {"train": {"docs": {"collection": "docs", "queries": "q.tsv"}}},
            "train.docs.queries: a pre-training reads a collection's text alone",
        ),
        ({"train": {"docs": {}}}, "train.docs.collection: missing"),
        ({"train": {"docs": {"collection": "other"}}}, "train.docs.collection: no such collection"),
        (
            {"dev": {"d": {"collection": "docs", "queries": "q", "qrels": "r", "run": "run.trec"}}},
            "dev: a pre-training sees no queries",
        ),
        ({"model": MONO}, "masking: only for a pre-training"),
        ({"model": {**MONO, "weights": "random"}}, "model.weights: only for a pre-training"),
        ({"model": MONO}, "masked_word_loss is only for a pre-training"),
        ({"model": MONO}, "expected a loss of mono models"),
    ]:
        with pytest.raises(InputError) as error:
            load(**changes)
        assert any(told in problem for problem in error.value.problems), error.value.problems
