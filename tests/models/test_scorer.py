"""Scores of rerankers: transformers' own, one pair at a time; and bytes that know no neighbours."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from stage_inputs import parts_of
from transformers import BertForSequenceClassification

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.folder.settings import PairConventions
from raypipe.models.load import load_scorer
from raypipe.models.scorer import scores_of
from raypipe.text.inputs import TextSlice, cut_to, taken

RNG = np.random.default_rng(11)
WORDS = ["lease", "shards", "rank", "zebra", "querying", "of", "passages", "running", "the"]


def texts(count, longest):
    sizes = RNG.integers(0, longest, count)
    return [" ".join(RNG.choice(WORDS, size)) for size in sizes]


def reference(model, parts, third_row=None):
    """Scores of transformers' own model, one input at a time, fp32 logits."""
    bert = BertForSequenceClassification.from_pretrained(
        model.folder, attn_implementation="eager"
    ).eval()
    if third_row is not None:
        table = bert.bert.embeddings.token_type_embeddings
        table.weight.data = torch.cat([table.weight.data, third_row[None]])
        table.num_embeddings = 3
    conventions = model.reranker
    tokenizer = open_tokenizer(model)
    cls_id, sep_id = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    parts = cut_to(conventions, parts[0], parts[1:], num_specials=1 + len(parts))
    logits = []
    for row in range(len(parts[0].counts)):
        ids, segments = [cls_id], [0]
        for segment, part in enumerate(parts):
            start = part.starts[row]
            pieces = part.flat[start : start + part.counts[row]].tolist()
            ids += [*pieces, sep_id]
            segments += [segment] * (len(pieces) + 1)
        assert len(ids) <= conventions.total_limit
        with torch.inference_mode():
            found = bert(torch.tensor([ids]), token_type_ids=torch.tensor([segments])).logits
        logits.append(found[0])
    return torch.stack(logits)


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("limits", [(12, None, 64), (10, None, 63), (None, None, 64)])
def test_mono_scores_are_those_of_one_pair_at_a_time_on_every_length(tiny, tmp_path, units, limits):
    named = dict(zip(("query_limit", "passage_limit", "total_limit"), limits, strict=True))
    score = "log-probability" if units == 2 else "raw"
    folder = tiny.make_tiny_reranker(tmp_path / "m", units=units, score=score, **named)
    model = resolve_model(str(folder))
    parts = parts_of(model, texts(120, 12), texts(120, 30))
    found = load_scorer(model).score(parts[0], parts[1:], budget_tokens=300)
    logits = reference(model, parts)
    expected = torch.log_softmax(logits, 1)[:, 1] if units == 2 else logits[:, 0]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)
    assert len(np.unique(found)) > 60


@pytest.mark.parametrize("choice", [None, "zero", "copy"])
@pytest.mark.parametrize("limits", [(12, 24, 64), (10, None, 62)])
def test_duo_scores_are_those_of_one_pair_at_a_time(tiny, tmp_path, choice, limits):
    named = dict(zip(("query_limit", "passage_limit", "total_limit"), limits, strict=True))
    segments = 3 if choice is None else 2
    folder = tiny.make_tiny_reranker(tmp_path / "m", kind="duo", segments=segments, **named)
    settings = {} if choice is None else {"segment_row": choice}
    model = resolve_model(str(folder), settings=settings)
    parts = parts_of(model, texts(90, 10), texts(90, 20), texts(90, 20))
    found = load_scorer(model).score(parts[0], parts[1:])
    table = load_file(folder / "model.safetensors")["bert.embeddings.token_type_embeddings.weight"]
    third = {None: None, "zero": torch.zeros(32), "copy": table[1]}[choice]
    expected = torch.softmax(reference(model, parts, third), 1)[:, 1].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # Both orders are asked: p(i, j) and p(j, i) need not sum to 1.
    swapped = load_scorer(model).score(parts[0], [parts[2], parts[1]])
    assert np.abs(found + swapped - 1).max() > 1e-3


def test_each_input_is_computed_alone_with_a_budget_of_one_token(tiny, tmp_path):
    model = resolve_model(str(tiny.make_tiny_reranker(tmp_path / "m", kind="duo")))
    queries, passages = parts_of(model, texts(3, 4), texts(5, 6))
    keys = np.array([[2, 0, 1], [4, 1, 0], [3, 2, 4]])
    scorer, seen = load_scorer(model), []
    parts = [
        taken(text, rows) for text, rows in zip((queries, passages, passages), keys, strict=True)
    ]
    found = scorer.score(
        parts[0], parts[1:], budget_tokens=1, beat=lambda rows: seen.append(list(rows))
    )
    assert found.tobytes() == scorer.score(parts[0], parts[1:]).tobytes()
    assert sorted(seen) == [[0], [1], [2]]
    specials = 4  # [CLS] query [SEP] passage [SEP] other passage [SEP]
    tokens = sum(int(part.counts.sum()) for part in parts) + specials * len(found)
    assert scorer.num_tokens(parts[0], parts[1:]) == tokens


@pytest.mark.parametrize("kind", ["mono", "duo"])
def test_a_pairs_bytes_do_not_know_its_neighbours(tiny, tmp_path, kind):
    folder = tiny.make_tiny_reranker(tmp_path / "m", kind=kind)
    model = resolve_model(str(folder))
    columns = [texts(200, 12), texts(200, 20), texts(200, 20)][: 3 if kind == "duo" else 2]
    parts = parts_of(model, *columns)
    whole = load_scorer(model).score(parts[0], parts[1:])
    for threads, budget in [(1, 64), (2, 700), (1, 5000), (2, 100_000)]:
        scorer = load_scorer(model, threads=threads)
        found = scorer.score(parts[0], parts[1:], budget_tokens=budget)
        assert found.tobytes() == whole.tobytes(), (threads, budget)
    order = RNG.permutation(200)
    shuffled = [TextSlice(p.flat, p.starts[order], p.counts[order]) for p in parts]
    found = load_scorer(model).score(shuffled[0], shuffled[1:], budget_tokens=900)
    assert found.tobytes() == whole[order].tobytes()


@pytest.mark.slow
def test_packaged_weights_with_a_head_score_alike_in_any_company(tmp_path):
    """384 wide, 6 layers, pretrained: sums as long as those that matter."""
    minilm = resolve_model("minilm")
    weights = {
        f"bert.{name}": value
        for name, value in load_file(minilm.folder / "model.safetensors").items()
    }
    torch.manual_seed(0)
    weights["classifier.weight"], weights["classifier.bias"] = torch.randn(2, 384), torch.zeros(2)
    save_file(weights, tmp_path / "model.safetensors")
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((minilm.folder / name).read_bytes())
    model = resolve_model(str(tmp_path), "monobert")
    parts = parts_of(model, texts(40, 12), texts(40, 120))
    whole = load_scorer(model).score(parts[0], parts[1:])
    alone = load_scorer(model).score(parts[0], parts[1:], budget_tokens=1)
    assert whole.tobytes() == alone.tobytes()
    expected = torch.log_softmax(reference(model, parts), 1)[:, 1].numpy()
    np.testing.assert_allclose(whole, expected, atol=1e-5)


LOGITS = np.array([[0.0, 0.0], [1.0, 3.0], [800.0, -800.0], [-800.0, 800.0]])


def conventions(**given):
    body = {"kind": "mono", "query_limit": 64, "passage_limit": None, "total_limit": 512}
    return PairConventions(**{**body, "relevant_label": 1, "score": "log-probability", **given})


def test_scores_of_two_units_by_hand():
    log = scores_of(LOGITS, conventions())
    np.testing.assert_allclose(log, [-np.log(2), -np.log1p(np.exp(-2)), -1600, 0], atol=1e-12)
    probability = scores_of(LOGITS, conventions(score="probability"))
    np.testing.assert_allclose(probability, [0.5, 1 / (1 + np.exp(-2)), 0, 1], atol=1e-12)
    assert scores_of(LOGITS, conventions(score="raw")).tolist() == [0, 3, -800, 800]
    flipped = scores_of(LOGITS, conventions(relevant_label=0, score="raw"))
    assert flipped.tolist() == [0, 1, 800, -800]


def test_scores_of_one_unit_by_hand():
    units = np.array([[0.0], [2.0]])
    one = {"relevant_label": None}
    assert scores_of(units, conventions(**one, score="raw")).tolist() == [0, 2]
    sigmoid = 1 / (1 + np.exp(-2))
    np.testing.assert_allclose(
        scores_of(units, conventions(**one, score="probability")), [0.5, sigmoid]
    )
    np.testing.assert_allclose(
        scores_of(units, conventions(**one)), [-np.log(2), np.log(sigmoid)], atol=1e-12
    )


def test_a_checkpoint_without_a_head_or_with_another_is_refused(tiny, tmp_path):
    folder = tiny.make_tiny_reranker(tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    headless = {name: value for name, value in weights.items() if "classifier" not in name}
    save_file(headless, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"lacks the tensor classifier.weight"):
        load_scorer(resolve_model(str(folder)))
    save_file(weights, folder / "model.safetensors")
    path = folder / "raypipe.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "relevant_label": None}))
    with pytest.raises(InputError, match="2 units"):
        load_scorer(resolve_model(str(folder)))
    path.write_text(json.dumps({**body, "total_limit": 100}))
    with pytest.raises(InputError, match="64 positions"):
        load_scorer(resolve_model(str(folder)))


def test_a_duos_third_segment_is_never_guessed(tiny, tmp_path):
    two = tiny.make_tiny_reranker(tmp_path / "two", kind="duo", segments=2)
    with pytest.raises(InputError, match="segment_row: zero"):
        load_scorer(resolve_model(str(two)))
    three = tiny.make_tiny_reranker(tmp_path / "three", kind="duo")
    with pytest.raises(InputError, match="has 3, remove it"):
        load_scorer(resolve_model(str(three), settings={"segment_row": "zero"}))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"score": "logit"}, "score: expected log-probability, probability or raw"),
        ({"total_limit": 10}, "do not hold"),
        ({"relevant_label": 2}, "relevant_label"),
        ({"query_limit": 0}, "query_limit"),
        ({"kind": "duo", "passage_limit": 24}, "a duoBERT model's is probability"),
        ({"pooling": "mean"}, "pooling"),
    ],
)
def test_conventions_that_feed_no_model_are_refused(tiny, tmp_path, given, told):
    folder = tiny.make_tiny_reranker(tmp_path / "m")
    path = folder / "raypipe.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **given}))
    with pytest.raises(InputError, match=told):
        resolve_model(str(folder))


def test_an_encoder_scores_nothing_and_a_reranker_encodes_nothing(tiny_model, tiny_mono):
    with pytest.raises(InputError, match="expected a monoBERT or duoBERT model"):
        load_scorer(resolve_model(str(tiny_model)))
    with pytest.raises(InputError, match="expected an encoder"):
        _ = resolve_model(str(tiny_mono)).encoder
