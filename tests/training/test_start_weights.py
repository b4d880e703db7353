"""What a training's start lacks."""

import pytest
import torch
import yaml
from masked_texts import make_pretrained
from safetensors.torch import load_file, save_file

from raypipe.config.load import load_training
from raypipe.driver.training.place import start_model
from raypipe.training.start import drawn_lines, missing_problems
from raypipe.training.trainee import LowRank, drawn

BODY = {
    "format": 1, "name": "p", "collections": {"c": {"format": "msmarco-v1", "input": "c.tsv"}},
    "train": {"c": {"collection": "c"}}, "loss": {"name": "masked-language-model"},
    "masking": {"next_sentence": True}, "steps": 100, "batch": 4, "optimiser": {"warmup": 5},
}  # fmt: skip
POOLER = "bert.pooler.dense.bias"


@pytest.fixture
def start(tiny, tmp_path):
    """A checkpoint of pre-training without its pooler's bias."""
    make_pretrained(tiny, tmp_path / "start")
    file = tmp_path / "start" / "model.safetensors"
    save_file({n: t for n, t in load_file(file).items() if n != POOLER}, file)
    return tmp_path / "start"


def of_start(start, *, preset="bert", body=BODY, **model):
    recipe = load_training(
        yaml.safe_dump({**body, "model": {"start": str(start), "preset": preset, **model}})
    )
    folder = start_model(recipe)
    return missing_problems(recipe, folder), drawn_lines(recipe, folder)


def test_a_pretraining_is_refused_without_its_heads_unless_they_may_be_drawn(start):
    (problem,), _ = of_start(start)
    assert POOLER in problem and "model.draw_missing: true" in problem and str(start) in problem
    drawn = f"start: the checkpoint lacks {POOLER}: drawn from N(0, 0.02) with seed 0"
    assert of_start(start, draw_missing=True) == ([], [drawn])
    words = {**BODY, "masking": {"next_sentence": False}}
    assert of_start(start, body=words) == ([], [])
    every = "start: every weight is drawn from N(0, 0.02) with seed 0"
    assert of_start(start, weights="random") == ([], [every])


def test_a_reranker_needs_the_pooler_and_an_encoder_does_not(start):
    train = {"c": {"collection": "c", "queries": "q.tsv", "triples": "t.tsv"}}
    pairs = {**BODY, "train": train, "loss": {"name": "cross-entropy"}}
    del pairs["masking"]
    (problem,), _ = of_start(start, preset="monobert", body=pairs)
    assert POOLER in problem and "model.draw_missing" in problem
    low = {"preset": "monobert", "body": pairs, "adapter": {}, "draw_missing": True}
    (problem,), _ = of_start(start, **low)
    assert POOLER in problem and "adapter cannot carry it" in problem
    encoder = {**pairs, "loss": {"name": "info-nce"}}
    assert of_start(start, preset="repbert", body=encoder) == ([], [])


def test_how_an_update_is_drawn():
    base = {"bert.encoder.a.weight": torch.zeros(3, 4)}
    found = drawn(["bert.encoder.a"], base, 2, 7)
    uniform = torch.rand(2, 4, generator=torch.Generator().manual_seed(7))
    expected = (2 * uniform - 1) * 0.5  # sqrt(1 / 4)
    assert torch.equal(found["bert.encoder.a.lora_A.weight"], expected)
    assert found["bert.encoder.a.lora_B.weight"].tolist() == [[0.0, 0.0]] * 3


def test_an_update_of_low_rank_is_scaled_by_alpha_over_rank():
    assert LowRank(rank=8, alpha=16).scale == 2.0 and LowRank(rank=16, alpha=4).scale == 0.25


@pytest.mark.parametrize(("units", "keep"), [(1, "; model.head: 1 begins with its own"), (3, "")])
def test_a_new_head_in_the_place_of_the_starts_own_is_told(tiny, tmp_path, units, keep):
    tiny.make_tiny_reranker(tmp_path / "start", units=units, relevant_label=None, score="raw")
    sets = {"c": {"collection": "c", "queries": "q", "triples": "t"}}
    body = {**BODY, "train": sets, "loss": {"name": "cross-entropy"}, "masking": None}
    limits = {"preset": "monobert", "query_limit": 12, "total_limit": 64}
    _, lines = of_start(tmp_path / "start", body=body, **limits)
    (line,) = lines
    assert line.startswith(f"start: its head has {units} units, and model.head is 2: a new one is ")
    assert line.endswith(f"with seed 0{keep}")
    if units == 1:
        assert of_start(tmp_path / "start", body=body, head=1, **limits) == ([], [])
