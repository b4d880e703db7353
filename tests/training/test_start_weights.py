"""What a training's start lacks."""

import pytest
import yaml
from masked_texts import make_pretrained
from safetensors.torch import load_file, save_file

from raypipe.config.load import load_training
from raypipe.driver.training.place import start_model
from raypipe.training.start import drawn_lines, missing_problems

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
