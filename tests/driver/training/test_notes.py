"""What is told of settings that are allowed and seldom meant."""

import pytest
from training_body import BODY, recipe

from raypipe.driver.training.notes import notes_of

ENCODER = {
    "kind": "encoder", "pooling": "mean", "query_segment": 0, "passage_segment": 0,
    "query_limit": 8, "passage_limit": 62,
}  # fmt: skip
COSINES, PRODUCTS = ({**ENCODER, "normalise": are} for are in (True, False))


def notes(loss, settings=None, *, scores=None, examples=64, config=None, **changes):
    model = {"start": "/m/start"}
    if settings is not None:
        changes["model"] = {**dict.fromkeys(("preset", "query_limit", "total_limit")), **model,
                            "settings": settings}  # fmt: skip
    own = recipe(loss=loss, batch=64, train={"b": BODY["train"]["a"]}, **changes)
    facts = {"examples": examples} | ({} if scores is None else {"teacher_scores": list(scores)})
    return list(notes_of(own, {"a": facts}, config or {}))


def test_a_batch_that_holds_examples_more_than_once_is_told():
    assert not notes({"name": "cross-entropy"}, examples=64)
    (line,) = notes({"name": "cross-entropy"}, examples=63)
    assert (
        line
        == "train: a batch of 64 takes the 63 examples more than once; batch: 63 takes each once"
    )


def test_cosines_want_a_temperature_that_is_stated():
    (line,) = notes({"name": "info-nce"}, COSINES)
    assert "cosines, from -1 to 1" in line and "write loss.temperature, such as 0.05" in line
    assert not notes({"name": "info-nce", "temperature": 1.0}, COSINES)
    assert not notes({"name": "info-nce", "temperature": 0.05}, COSINES)
    assert not notes({"name": "info-nce"}, PRODUCTS)
    assert not notes({"name": "multi-label-margin"}, COSINES)


@pytest.mark.parametrize(
    ("loss", "settings", "scores", "told"),
    [
        ("margin-mse", None, (0.01, 0.99), "lie from 0.01 to 0.99, as probabilities do"),
        ("mse", None, (0.0, 1.0), "as probabilities do, between which mse sees small"),
        ("kl", PRODUCTS, (0.2, 0.9), "as probabilities do"),
        ("margin-mse", None, (-9.5, -0.001), "as log-probabilities do, which are all near 0"),
        ("margin-mse", None, (-9.5, 8.0), None),
        ("margin-mse", None, (0.5, 0.5), None),
        ("margin-mse", COSINES, (-9.5, 8.0), "from -9.5 to 8, the model's are cosines"),
        ("margin-mse", COSINES, (0.0, 1.0), None),
        ("cross-entropy", None, (0.0, 1.0), None),
    ],
)
def test_a_teachers_scores_of_another_scale_are_told(loss, settings, scores, told):
    lines = notes({"name": loss}, settings, scores=scores)
    assert [told in line and line.startswith("train: a: ") for line in lines] == [True] * bool(told)
    assert not notes({"name": "kl", "teacher_temperature": 2.0}, settings, scores=scores)


def test_a_default_dropout_that_is_not_the_starts_own_is_told():
    loss, modern = {"name": "cross-entropy"}, {"attention_dropout": 0.0, "mlp_dropout": 0.0}
    (line,) = notes(loss, config=modern)
    assert line == (
        "train: dropout is 0.1, the default; the start's config.json has 0, which other trainers "
        "use: write one"
    )
    assert not notes(loss, config=modern, dropout=0.1)
    assert not notes(loss, config={"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0})
