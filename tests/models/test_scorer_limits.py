"""Limits at the model's last position, and the unit that says relevant."""

import numpy as np
import pytest
import torch
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.folder.settings import PairConventions
from raypipe.models.load import load_scorer
from raypipe.models.scorer import scores_of

LONG = "zebra " * 100
"""More word pieces than the 64 positions of the tiny models."""


def test_a_rerankers_whole_input_fits_the_positions(tiny, tmp_path):
    """total_limit counts the specials: 64 fit, 65 do not."""
    model = resolve_model(str(tiny.make_tiny_reranker(tmp_path / "64", total_limit=64)))
    query, passage = parts_of(model, [LONG], [LONG])
    assert np.isfinite(load_scorer(model).score(query, [passage])).all()
    folder = tiny.make_tiny_reranker(tmp_path / "65", total_limit=65)
    with pytest.raises(InputError, match="allow 65 tokens, the model has 64 positions"):
        load_scorer(resolve_model(str(folder)))


@pytest.mark.parametrize(
    ("label", "score", "expected"),
    [
        # Units 1 and 3: softmax gives them 1 / (1 + e^2) and 1 / (1 + e^-2).
        (0, "log-probability", -np.log1p(np.exp(2))),
        (1, "log-probability", -np.log1p(np.exp(-2))),
        (0, "probability", 1 / (1 + np.exp(2))),
        (1, "probability", 1 / (1 + np.exp(-2))),
        (0, "raw", 1.0),
        (1, "raw", 3.0),
    ],
)
def test_the_score_is_of_the_relevant_unit_by_hand(label, score, expected):
    conventions = PairConventions(
        kind="mono",
        query_limit=64,
        passage_limit=None,
        total_limit=512,
        relevant_label=label,
        score=score,
    )
    found = scores_of(np.array([[1.0, 3.0]]), conventions)
    np.testing.assert_allclose(found, [expected], rtol=1e-12)


@pytest.mark.parametrize("label", [0, 1])
def test_a_model_whose_relevant_unit_is_0_is_read_so(tiny, tmp_path, label):
    from transformers import BertForSequenceClassification

    folder = tiny.make_tiny_reranker(tmp_path / "m", relevant_label=label)
    model = resolve_model(str(folder))
    query, passage = parts_of(model, ["zebra query"], ["the lease of a shard"])
    found = load_scorer(model).score(query, [passage])[0]
    cls_id, sep_id = (open_tokenizer(model).token_to_id(t) for t in ("[CLS]", "[SEP]"))
    ids = [cls_id, *query.flat.tolist(), sep_id, *passage.flat.tolist(), sep_id]
    segments = [0] * (len(query.flat) + 2) + [1] * (len(passage.flat) + 1)
    theirs = BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([segments])
        ).logits
    expected = torch.log_softmax(logits, 1)[0]
    assert found == pytest.approx(expected[label].item(), abs=1e-5)
    assert abs(expected[0] - expected[1]) > 0.01
