import pytest
from training_text import load

from raypipe.config.training import Adapter, Optimiser, TrainResources, Validate
from raypipe.errors import InputError


@pytest.mark.parametrize("value", ["1.5", "-0.1", ".nan", "true", "foo", "[0.5]"])
def test_a_near_copy_is_a_part_or_the_same(value):
    assert load("near_copy=same").near_copy == "same"
    assert [load(f"near_copy={n}").near_copy for n in ("0", "1", "0.25")] == [0.0, 1.0, 0.25]
    with pytest.raises(InputError) as found:
        load(f"near_copy={value}")
    (problem,) = found.value.problems
    assert "near_copy: expected a number from 0 to 1, or same; found " in problem


def test_defaults_are_those_of_the_papers():
    assert Optimiser() == Optimiser(
        rate=3e-6, warmup=10_000, decay="linear", weight_decay=0.01, beta1=0.9, beta2=0.999,
        eps=1e-6, bias_correction=False, clip=1.0,
    )  # fmt: skip
    assert Adapter() == Adapter(rank=8, alpha=16.0, start=None)
    assert Validate(every=5) == Validate(every=5, measure="nDCG@10", patience=None)
    assert TrainResources() == TrainResources(
        workers=1, device="auto", backend="ray", threads="auto", budget_tokens="auto",
        precision="fp32", recompute=False, max_failures=3,
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
