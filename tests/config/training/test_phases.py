"""A training recipe with phases, as it is read and written."""

from pathlib import Path

from training_text import RECIPE

from raypipe.config.load import load_training, recipe_text, verb_of
from raypipe.config.paths import missing_inputs
from raypipe.config.phases import PhasedTraining, resolved_training

PHASES = """
phases:
- name: first
- name: second
  steps: 50
  optimiser: {rate: 1.0e-5, warmup: 5}
  validate: {every: 10}
  loss: {name: pairwise-hinge}
  model: {head: 1}
- name: third
  after: first
  model: {preset: duobert}
  train: {more: {collection: docs, queries: more.tsv, triples: t.tsv}}
  dev: {}
  validate:
"""


def load(*overrides, text=RECIPE + PHASES, base="/r"):
    return load_training(text, overrides=overrides, base=Path(base))


def test_a_phase_says_only_what_is_its_own():
    found = load("seed=5", "phases.1.seed=6")
    assert isinstance(found, PhasedTraining) and found.name == "mine"
    assert [(p.name, p.after) for p in found.phases] == [
        ("first", None), ("second", "first"), ("third", "first")
    ]  # fmt: skip
    first, second, third = (p.training for p in found.phases)
    assert first == load("seed=5", text=RECIPE).model_copy(update={"overrides": first.overrides})
    assert (second.steps, second.optimiser.rate, second.optimiser.warmup) == (50, 1e-5, 5)
    assert second.validate_.every == 10 and second.validate_.measure == "nDCG@10"
    assert (second.loss.name, second.model.head, second.model.start) == (
        "pairwise-hinge", 1, "minilm"
    )  # fmt: skip
    assert (second.seed, third.seed, second.train) == (6, 5, first.train)
    assert [*third.train] == ["more"] and third.train["more"].queries == "/r/more.tsv"
    assert third.dev == {} and third.validate_ is None and third.model.preset == "duobert"


def test_the_dev_sets_of_other_phases_are_guarded():
    found = load()
    guards = [found.guarded(phase).guard for phase in found.phases]
    assert [[*guard] for guard in guards] == [
        ["test", "second.docs"], ["test", "first.docs"], ["test", "first.docs", "second.docs"]
    ]  # fmt: skip
    assert guards[0]["second.docs"].queries == "/r/dq.tsv"
    assert guards[0]["second.docs"].qrels == "/r/dqrels.txt"


def test_the_resolved_recipe_is_the_recipe():
    found = load()
    text = resolved_training(found)
    assert load(text=text) == found
    assert text.count("collections:") == 1 and text.count("start:") == 1
    assert verb_of(text) == "train"


def test_a_later_phase_begins_its_adapter_anew():
    found = load("model.adapter={rank: 4, start: minilm-mono}")
    assert [p.training.model.adapter.start for p in found.phases] == ["minilm-mono", None, None]
    assert [p.training.model.adapter.rank for p in found.phases] == [4, 4, 4]


def test_inputs_that_are_not_there_are_told_with_their_phase(tmp_path):
    told = missing_inputs(load(base=tmp_path))
    assert [line.split(": /")[0] for line in told if "queries" in line or "coll" in line] == [
        "collections.docs.input.0", "phase first: train.docs.queries",
        "phase first: dev.docs.queries", "guard.test.queries",
        "phase second: train.docs.queries", "phase second: dev.docs.queries",
        "phase third: train.more.queries",
    ]  # fmt: skip


def test_recipes_with_phases_are_training_recipes():
    assert verb_of("phases: []") == "train"
    assert verb_of(recipe_text("quickstart")) == "pipeline"
