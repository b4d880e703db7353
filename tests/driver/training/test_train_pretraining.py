"""Pre-training whole: from a configuration to a fine-tuned model, killed on the way."""

import contextlib
import json

import pytest
import torch
from masked_texts import make_pretrained
from safetensors.torch import load_file, save_file
from small_training import without_queries

from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, Interrupted
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_scorer
from raypipe.training.steps import Updates

POOLER = ("bert.pooler.dense.bias", "bert.pooler.dense.weight")


@pytest.fixture
def write(small_recipe, tiny_model):
    """A function that writes a pre-training's recipe over the small collection."""

    def write(name="pre", model=(), masking=(), **changed):
        start = {"start": str(tiny_model), "preset": "bert", "total_limit": 48, "query_limit": None}
        body = {
            "model": {**start, "weights": "random", **dict(model)},
            "train": {"docs": {"collection": "docs", "queries": None, "qrels": None}},
            "loss": {"name": "masked-language-model"},
            "masking": {"next_sentence": True, "held_out": 6, **dict(masking)},
            "validate": {"every": 6, "measure": "masked_word_loss"},
            "optimiser": {"rate": 3e-3, "warmup": 2},
        }
        path = small_recipe(name, **{**body, **changed})
        return without_queries(path)

    return write


@contextlib.contextmanager
def stopped_before(monkeypatch, number):
    """The process ends before this step, as by a kill: nothing more is saved."""
    real = Updates.step

    def step(self, at):
        if at == number:
            raise Interrupted("stopped", 143)
        return real(self, at)

    with monkeypatch.context() as patched:
        patched.setattr(Updates, "step", step)
        yield


def same(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())


@pytest.mark.parametrize("next_sentence", [True, pytest.param(False, marks=pytest.mark.long)])
def test_from_a_configuration_the_held_out_loss_falls_and_a_kill_changes_nothing(
    write, train, weights, tmp_path, monkeypatch, next_sentence
):
    masking, slower = {"next_sentence": next_sentence, "held_out": 24}, {"rate": 1e-3, "warmup": 2}
    recipe = write(masking=masking, optimiser=slower)
    said = []
    calm = train(recipe, tmp_path / "calm", said=said)
    losses = [each["mean"] for each in calm.summary["history"]]
    assert losses == sorted(losses, reverse=True) and len(losses) == 2
    assert calm.summary["step"] == 12, "the lowest loss is the best"
    assert losses[1] < 0.99 * losses[0]  # by how much depends on this Python's texts
    assert any(line.startswith("text: docs: ") and "24 of them held out" in line for line in said)
    assert any("every weight is drawn from N(0, 0.02) with seed 0" in line for line in said)
    assert "seen: nothing (random weights); then docs (small)" in calm.table
    with stopped_before(monkeypatch, 7), pytest.raises(Interrupted):
        train(recipe, tmp_path / "cut")
    cut = train(recipe, tmp_path / "cut")
    assert same(weights(tmp_path / "calm"), weights(tmp_path / "cut"))
    assert cut.summary["history"] == calm.summary["history"]
    assert verify(open_workspace(tmp_path / "cut")) == []


def test_what_comes_out_opens_in_transformers_and_is_shown(write, train, tmp_path):
    from transformers import BertForMaskedLM, BertForPreTraining

    few = {"steps": 2, "validate": None, "optimiser": {"warmup": 1}}
    for next_sentence, kind in ((True, BertForPreTraining), (False, BertForMaskedLM)):
        masking = {"next_sentence": next_sentence, "held_out": 0}
        folder = train(write(masking=masking, **few), tmp_path / kind.__name__).model
        own = load_file(folder / "model.safetensors")
        assert set(POOLER) <= set(own), "drawn with the rest, for what is trained next"
        theirs, told = kind.from_pretrained(folder, output_loading_info=True)
        assert not told["missing_keys"]
        name = "cls.predictions.transform.dense.weight"
        assert torch.equal(theirs.state_dict()[name], own[name])
        assert json.loads((folder / "config.json").read_text())["architectures"] == [kind.__name__]
        found = describe(str(folder), None)
        assert (found.kind, found.problems, found.missing) == ("pretrained", [], [])
        assert found.conventions["total_limit"] == 48
        with pytest.raises(InputError, match="kind pretrained, which is to start a training from"):
            load_scorer(resolve_model(str(folder)))


def test_a_reranker_begins_from_what_was_pretrained(write, small_recipe, train, weights, tmp_path):
    few = {"steps": 2, "validate": None, "optimiser": {"warmup": 1}}
    folder = train(write(masking={"held_out": 0}, **few), tmp_path / "pre").model
    for preset, limits in (("monobert", {}), ("duobert", {"passage_limit": 20})):
        model = {"start": str(folder), "preset": preset, "query_limit": 12, **limits}
        tuned = train(small_recipe(preset, model=model, steps=2, validate=None, dev={"docs": None},
                                   optimiser={"rate": 1e-9, "warmup": 1}),
                      tmp_path / preset)  # fmt: skip
        own, begun = weights(tmp_path / preset), load_file(folder / "model.safetensors")
        assert "seen: nothing (random weights); then docs (small); then docs (small)" in tuned.table
        assert not [name for name in own if name.startswith("cls.")]
        for name in (*POOLER, "bert.encoder.layer.1.output.dense.weight"):
            assert (own[name] - begun[name]).abs().max() < 1e-6
        load_scorer(resolve_model(str(tuned.model)))


@pytest.mark.long
def test_phases_pretrain_and_then_fine_tune_in_one_recipe(
    write, small_recipe, train, weights, tmp_path
):
    import yaml

    first = yaml.safe_load(write().read_text())
    second = yaml.safe_load(small_recipe("tuned").read_text())
    shared = {
        name: second[name] for name in ("format", "name", "collections", "guard", "resources")
    }
    own = {name for name in {*first, *second} if name not in shared}
    phases = [{"name": "pre", **{n: first[n] for n in own if n in first}},
              {"name": "mono", **{n: second[n] for n in own if n in second}}]  # fmt: skip
    del phases[1]["model"]["start"]
    path = tmp_path / "phases.yaml"
    path.write_text(yaml.safe_dump({**shared, "phases": phases}))
    trained = train(path, tmp_path / "out")
    assert trained.summary["phases"]["pre"]["history"][-1]["mean"] < 4.5
    assert trained.summary["phases"]["pre"]["step"] == 12
    found = weights(tmp_path / "out")
    assert "classifier.weight" in found and not [n for n in found if n.startswith("cls.")]
    assert "random weights" in trained.table and "masked_word_loss" in trained.table


@pytest.mark.long
def test_a_start_that_lacks_a_head_or_a_pooler_is_refused_or_drawn_by_name(
    write, small_recipe, train, tiny, tmp_path
):
    start = tmp_path / "start"
    make_pretrained(tiny, start)
    whole = load_file(start / "model.safetensors")
    save_file({n: t for n, t in whole.items() if "pooler" not in n}, start / "model.safetensors")
    few = {"steps": 2, "validate": None, "optimiser": {"warmup": 1}}
    read = {"start": str(start), "weights": "read"}
    with pytest.raises(InputError, match=r"lacks the tensor bert\.pooler\.dense\.weight"):
        train(write(model=read, masking={"held_out": 0}, **few), tmp_path / "a")
    said = []
    drawn = write(model={**read, "draw_missing": True}, masking={"held_out": 0}, **few)
    trained = train(drawn, tmp_path / "b", said=said)
    line = "start: the checkpoint lacks bert.pooler.dense.weight, bert.pooler.dense.bias: drawn"
    assert any(told.startswith(line) for told in said) and line in trained.table
    words = {"next_sentence": False, "held_out": 0}
    folder = train(write(model=read, masking=words, **few), tmp_path / "c").model
    assert not set(POOLER) & set(load_file(folder / "model.safetensors")), "none was drawn"

    mono = {"start": str(start), "preset": "monobert", "query_limit": 12, "total_limit": 48}
    short = {"steps": 2, "optimiser": {"rate": 1e-3, "warmup": 1}, "validate": {"every": 2}}
    with pytest.raises(InputError, match="bert.pooler.dense.bias; start from one that has it"):
        train(small_recipe("mono", model=mono, **short), tmp_path / "d")
    adapter = {**mono, "adapter": {"rank": 2}, "draw_missing": True}
    with pytest.raises(InputError, match="a low-rank adapter cannot carry it"):
        train(small_recipe("low", model=adapter, **short), tmp_path / "e")
    tuned = train(
        small_recipe("own", model={**mono, "draw_missing": True}, **short), tmp_path / "f"
    )
    load_scorer(resolve_model(str(tuned.model)))
