"""Whether a row's bytes know its neighbours on this device, and that the numerics class says so."""

import numpy as np
import pytest

from raypipe.models.load import load_encoder, load_scorer
from raypipe.text.inputs import TextSlice

UNPROVEN = "neighbours: unproven"
ROWS = 48
RNG = np.random.default_rng(5)


def different(alone, found):
    """Rows of which any bit differs."""
    same = alone.view(np.int32).reshape(len(alone), -1) == found.view(np.int32).reshape(
        len(alone), -1
    )
    return int((~same.all(axis=1)).sum())


def promises(engine):
    """Whether its numerics class promises equal bytes in any company."""
    return UNPROVEN not in engine.numerics


def shuffled(part, order):
    return TextSlice(part.flat, part.starts[order], part.counts[order])


def budgets(device):
    return (300, 1500, 6000) if device == "cpu" else (300, 1500, 6000, 32768)


def of_vectors(model, random_bert, shape, device, counts):
    encoder = load_encoder(model, device=device)
    flat, offsets = random_bert.pieces_of(counts, shape, seed=3)
    alone = encoder.encode(flat, offsets, side="passage", budget_tokens=1)
    for budget in budgets(device):
        found = encoder.encode(flat, offsets, side="passage", budget_tokens=budget)
        yield f"vectors, {budget} tokens", different(alone, found), promises(encoder)


def of_scores(model, random_bert, shape, device, counts):
    scorer = load_scorer(model, device=device)
    parts = []
    for seed in range(1 + scorer.conventions.num_passages):
        flat, offsets = random_bert.pieces_of(counts, shape, seed=seed)
        parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))
    alone = scorer.score(parts[0], parts[1:], budget_tokens=1)
    for budget in budgets(device):
        order = RNG.permutation(len(counts))
        company = [shuffled(part, order) for part in parts]
        found = scorer.score(company[0], company[1:], budget_tokens=budget)
        what = f"{scorer.conventions.kind}, {budget} tokens"
        yield what, different(alone[order], found), promises(scorer)


@pytest.mark.slow
def test_bytes_alone_and_in_company_are_equal_exactly_where_the_class_promises_it(
    device, models, random_bert, tell
):
    """Every promise is kept; and where nothing differs at any shape, one is made."""
    shapes = [random_bert.Shape(layers=3, hidden=64, heads=4, words=1000)]
    if device == "cuda":
        shapes += [random_bert.Shape(layers=2, hidden=h, heads=h // 64) for h in (384, 768, 1024)]
    counts = np.concatenate([RNG.integers(0, 250, ROWS // 2), np.repeat([7, 60, 61], ROWS // 6)])
    found = []
    for shape in shapes:
        for kind, measure in (("encoder", of_vectors), ("mono", of_scores), ("duo", of_scores)):
            model = models(shape, kind)
            for what, rows, promised in measure(model, random_bert, shape, device, counts):
                tell(
                    f"hidden {shape.hidden}, {what}: {rows} of {len(counts)} rows differ, "
                    f"{'promised none' if promised else 'unproven'}"
                )
                found.append((f"hidden {shape.hidden}, {what}", rows, promised))
    broken = [(what, rows) for what, rows, promised in found if promised and rows]
    assert broken == []
    if not any(rows for _, rows, _ in found):
        assert all(promised for _, _, promised in found), "unproven, and no row differs"


@pytest.mark.parametrize("kind", ["encoder", "mono"])
def test_the_same_call_twice_gives_the_same_bytes(device, shape, models, random_bert, kind):
    model = models(shape, kind)
    counts = RNG.integers(0, 200, ROWS)
    flat, offsets = random_bert.pieces_of(counts, shape, seed=4)
    part = TextSlice(flat, offsets[:-1], counts)
    found = []
    for _ in range(2):
        if kind == "encoder":
            found.append(load_encoder(model, device=device).encode(flat, offsets, side="passage"))
        else:
            found.append(load_scorer(model, device=device).score(part, [part]))
    assert found[0].tobytes() == found[1].tobytes()
    assert len(np.unique(found[0], axis=0)) > 1
