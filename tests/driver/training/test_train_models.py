"""`raypipe train` whole: the model that comes out."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raypipe.errors import InputError
from raypipe.text.inputs import TextSlice


def test_the_model_scores_and_opens_in_transformers_with_equal_numbers(
    small_recipe, train, tmp_path
):
    from transformers import AutoModelForSequenceClassification

    from raypipe.models.folder.model_folder import layouts_of, resolve_model
    from raypipe.models.load import load_scorer

    said = []
    trained = train(small_recipe(), tmp_path / "out", said=said)
    model = resolve_model(str(trained.model))
    assert model.reranker.kind == "mono"
    layout = layouts_of(model)["pair"]
    cls_id, sep_id = layout.first, layout.last

    query, passage = [10, 11], [20, 21, 22]
    parts = [
        TextSlice(np.array(p, np.uint16), np.array([0]), np.array([len(p)]))
        for p in (query, passage)
    ]
    score = load_scorer(model).score(parts[0], [parts[1]])[0]
    theirs = AutoModelForSequenceClassification.from_pretrained(trained.model).eval()
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor([[cls_id, *query, sep_id, *passage, sep_id]]),
            token_type_ids=torch.tensor([[0] * 4 + [1] * 4]),
        ).logits
    assert score == pytest.approx(torch.log_softmax(logits, 1)[0, 1].item(), abs=1e-5)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["status"] == "complete"
    steps = [each["step"] for each in summary["history"]]
    assert steps == [4, 8, 12]
    best = max(summary["history"], key=lambda each: each["mean"])
    assert summary["step"] == best["step"]
    assert "not test results" in trained.table
    assert any(line.startswith("guard: docs: dropped") for line in said)
    lines = (tmp_path / "out" / "train" / "progress.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [e["step"] for e in told if "loss" in e] == list(range(1, 13))
    assert {"loss", "rate", "gradient_norm", "tokens", "seconds"} <= told[1].keys()
    assert (told[0]["step"], told[0]["measure"]) == (0, "nDCG@10")
    assert list((tmp_path / "out" / "train" / "tensorboard").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "limits", "loss"),
    [
        ("duobert", {"query_limit": 12, "passage_limit": 20, "total_limit": 64}, "cross-entropy"),
        (
            "repbert",
            {"query_limit": 20, "passage_limit": 40, "total_limit": None},
            "multi-label-margin",
        ),
        ("repbert", {"query_limit": 20, "passage_limit": 40, "total_limit": None}, "info-nce"),
        ("monobert", {"query_limit": 12, "total_limit": 64, "head": 1}, "pairwise-hinge"),
    ],
)
def test_every_kind_trains_and_loads(
    small_recipe, weights, train, tiny_model, tmp_path, preset, limits, loss
):
    from raypipe.models.folder.model_folder import resolve_model
    from raypipe.models.load import load_encoder, load_scorer

    model = {"start": str(tiny_model), "preset": preset, **limits}
    body = {"model": model, "loss": {"name": loss}, "steps": 4}
    path = small_recipe(**body)
    trained = train(path, tmp_path / "out")
    found = resolve_model(str(trained.model))
    (load_encoder if preset == "repbert" else load_scorer)(found)
    start = load_file(tiny_model / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    now = weights(tmp_path / "out")
    assert not torch.equal(now.get(name, now.get(f"bert.{name}")), start[name])


@pytest.mark.slow
def test_an_adapter_is_merged_by_peft_to_the_model_that_was_trained(
    small_recipe, weights, train, tiny, tmp_path
):
    from raypipe.models.folder.model_folder import load_weights, resolve_model

    for kind, limits in (("monobert", {}), ("duobert", {"passage_limit": 20})):
        start = tiny.make_tiny_bert(tmp_path / f"start-{kind}")
        model = {"start": str(start), "preset": kind, "adapter": {"rank": 2, "alpha": 4.0}}
        recipe = small_recipe(model={**model, **limits}, optimiser={"rate": 1e-2, "warmup": 2})
        trained = train(recipe, tmp_path / kind)
        whole = weights(tmp_path / kind)
        adapter = trained.model / "adapter"
        told = json.loads((adapter / "raypipe.json").read_text())
        assert told["base"] == str(start)
        merged = load_weights(resolve_model(str(adapter)))
        moved = 0
        base = load_file(start / "model.safetensors")
        for name, tensor in whole.items():
            assert (merged[name] - tensor).abs().max() < 2e-3, name  # half precision on disk
            own = base.get(name.removeprefix("bert."))
            moved += own is not None and own.shape == tensor.shape and not torch.equal(own, tensor)
        assert moved >= 12


@pytest.mark.slow
def test_an_adapter_that_began_from_another_says_what_both_were_trained_on(
    small_recipe, train, tiny, tmp_path
):
    start = tiny.make_tiny_bert(tmp_path / "start")
    model = {"start": str(start), "adapter": {"rank": 2, "alpha": 4.0}}
    first = train(small_recipe(model=model, steps=6), tmp_path / "first").model / "adapter"
    model["adapter"] = {**model["adapter"], "start": str(first)}
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    (tmp_path / "train.trec").write_text(
        "".join(" ".join(row) + "\n" for row in run if int(row[3]) > 15)
    )
    trained = train(small_recipe(model=model, steps=6), tmp_path / "second")
    second, summary = trained.model / "adapter", trained.summary
    told = json.loads((second / "raypipe.json").read_text())
    assert "; then docs (small); then docs (small)" in told["start_weights_saw"]
    assert told["made_by"]["step"] == summary["step"]
    before, after = (set(np.load(f / "trained_on.npy").tolist()) for f in (first, second))
    assert before < after


def test_a_loss_that_is_not_finite_ends_the_training_and_keeps_its_checkpoints(
    small_recipe, train, tmp_path
):
    path = small_recipe(optimiser={"rate": 1e30, "warmup": 0, "clip": 0.0}, checkpoint_every=1)
    with pytest.raises(InputError, match="step .*: the loss is nan.* lower optimiser.rate"):
        train(path, tmp_path / "out")
    assert list((tmp_path / "out" / "stores" / "weights@small").glob("*/steps/*.json"))
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["status"], summary["exit"]) == ("failed", 2)


def test_batches_of_a_step_are_one_larger_batch(small_recipe, train, weights, tmp_path):
    settings = {"dropout": 0.0, "steps": 5, "validate": None, "dev": {"docs": None}}
    train(small_recipe("one", batch=8, **settings), tmp_path / "one")
    train(small_recipe("two", batch=4, accumulation=2, **settings), tmp_path / "two")

    def losses(out):
        lines = (out / "train" / "progress.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name, tensor in one.items():
        assert (two[name] - tensor).abs().max() < 1e-4, name


def test_the_recipes_precision_and_recomputing_reach_the_model(
    small_recipe, train, weights, tmp_path
):
    settings = {"dropout": 0.0, "steps": 4, "validate": None, "dev": {"docs": None}}
    resources = {"backend": "inline", "threads": 1}
    exact = train(small_recipe("exact", **settings), tmp_path / "exact")
    half = train(
        small_recipe("half", **settings, resources={**resources, "precision": "bf16"}),
        tmp_path / "half",
    )
    assert exact.summary["numerics"].endswith("fp32")
    assert half.summary["numerics"].endswith("bf16")
    name = "bert.encoder.layer.0.output.dense.weight"
    difference = (weights(tmp_path / "exact")[name] - weights(tmp_path / "half")[name]).abs().max()
    assert 0 < difference < 1e-2


def test_console_jsonl_and_tensorboard_tell_a_trainings_curves(small_recipe, train, tmp_path):
    said = []
    train(small_recipe(), tmp_path / "out", said=said)
    steps = [line for line in said if line.startswith("train: step ")]
    assert any(
        all(word in line for word in ("loss ", "rate ", "gradient ", "tokens/s")) for line in steps
    )
    assert sum("nDCG@10 docs " in line for line in steps) == 4
    assert steps[0].startswith("train: step 0, the start model: nDCG@10 docs ")
    (file,) = (tmp_path / "out" / "train" / "tensorboard").iterdir()
    curves = scalars(file.read_bytes())
    names = {"loss", "rate", "gradient_norm", "tokens", "seconds", "tokens_per_second"}
    assert curves.keys() == {f"train/{n}" for n in names} | {"nDCG_10/docs"}
    assert curves["train/loss"] == list(range(1, 13))
    assert curves["nDCG_10/docs"] == [0, 4, 8, 12]


def scalars(data):
    """The steps of each scalar in an event file: records of length, 4 bytes, event, 4 bytes."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    while data:
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
        data = data[12 + length + 4 :]
    return found
