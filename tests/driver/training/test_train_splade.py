"""`raypipe train` of a splade model: what comes out, and by which scores it is chosen."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml
from json_files import changed
from safetensors.torch import load_file, save_file
from sparse_models import make_splade
from stage_inputs import parts_of
from stopped_training import stopped_at

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError, Interrupted
from raypipe.evaluation.measures import evaluate
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder

LIMITS = {"query_limit": 12, "passage_limit": 40, "total_limit": None}
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def recipe(small_recipe, tmp_path):
    """A function that writes the recipe of a small splade training."""
    start = make_splade(tmp_path / "start")
    changed(start / "config.json", tie_word_embeddings=False)  # a folder's own words
    body = {"loss": {"name": "info-nce"}, "steps": 4}

    def write(name="recipe", *, model=None, **more):
        own = {"start": str(start), "preset": "splade", **LIMITS, **(model or {})}
        return small_recipe(name, **{**body, "model": own, **more})

    return write


def weights_of(folder, texts, side):
    model = resolve_model(str(folder))
    (text,) = parts_of(model, texts)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    return load_encoder(model).encode(text.flat, offsets, side=side)


def lines_of(path):
    return dict(line.rstrip("\n").split("\t") for line in path.open())


LOW_RANK = {"rank": 2, "alpha": 4.0}


@pytest.mark.parametrize("adapter", [None, pytest.param(LOW_RANK, marks=pytest.mark.slow)])
def test_the_model_opens_in_raypipe_and_transformers_with_the_same_weights(
    recipe, train, tmp_path, adapter
):
    from transformers import AutoTokenizer, BertForMaskedLM

    trained = train(recipe(model={"adapter": adapter}), tmp_path / "out")
    model, start = trained.model, load_file(tmp_path / "start" / "model.safetensors")
    assert resolve_model(str(model)).encoder.pooling == "splade"
    tensors = load_file(model / "model.safetensors")
    assert set(tensors) == set(start)  # the decoder has none of its own
    assert torch.equal(tensors[WORDS], start[WORDS]) == (adapter is not None)
    config = json.loads((model / "config.json").read_text())
    assert (config["architectures"], config["tie_word_embeddings"]) == (["BertForMaskedLM"], True)
    theirs = BertForMaskedLM.from_pretrained(model).eval()
    assert theirs.cls.predictions.decoder.weight is theirs.bert.embeddings.word_embeddings.weight
    tokenizer = AutoTokenizer.from_pretrained(model)
    texts = ["lease shard", "a query of a passage", "score merge model token batch depth"]
    before = weights_of(tmp_path / "start", texts, "passage")
    for row, found in enumerate(weights_of(model, texts, "passage")):
        with torch.no_grad():
            logits = theirs(**tokenizer(texts[row], return_tensors="pt")).logits[0]
        np.testing.assert_allclose(found, torch.log1p(logits.relu()).amax(dim=0), atol=1e-5)
        assert np.abs(found - before[row]).max() > 1e-4


@pytest.mark.parametrize(
    ("most", "scale"), [(5, 1.5), pytest.param(None, None, marks=pytest.mark.slow)]
)
def test_a_checkpoint_is_measured_by_the_impacts_that_the_search_multiplies(
    recipe, train, small_files, tmp_path, most, scale
):
    own = json.loads((tmp_path / "start" / "raypipe.json").read_text())
    settings = {**own, "query_limit": 12, "passage_limit": 40, "max_terms": most}
    settings |= {"impact_scale": scale}
    model = {"preset": None, "settings": settings, "query_limit": None, "passage_limit": None}
    trained = train(recipe(model=model, validate={"every": 4}), tmp_path / "out")
    (measured,) = trained.summary["history"]
    queries, passages = (lines_of(small_files / f"{n}.tsv") for n in ("queries.dev", "passages"))

    def impacts(texts, side):
        weights = weights_of(trained.model, list(texts.values()), side)
        found = np.rint(weights * np.float32(scale or 100))
        for row in found if most is not None else []:
            row[np.argsort(-row, kind="stable")[most:]] = 0
        return dict(zip(texts, found.astype(np.int64), strict=True))

    of_query, of_passage = impacts(queries, "query"), impacts(passages, "passage")
    lists: dict[str, list[str]] = {}
    for line in (tmp_path / "dev.trec").read_text().splitlines():
        lists.setdefault(line.split()[0], []).append(line.split()[2])
    rows = []
    order = list(passages)
    for query, listed in lists.items():
        scores = {p: int(of_query[query] @ of_passage[p]) for p in listed[:10]}
        best = sorted(scores, key=lambda p: (-scores[p], order.index(p)))
        for rank, passage in enumerate([*best, *listed[10:]], 1):
            rows.append((query, passage, rank, float(-rank)))
    run = pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema.RUN_FILE)
    qrels = read_qrels(small_files / "qrels.dev.txt")
    expected = evaluate(run, qrels, ["nDCG@10"], warn=False).mean["nDCG@10"]
    assert measured["mean"] == pytest.approx(expected, abs=1e-9) and 0 < expected < 1


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_undisturbed_weights(
    recipe, weights, train, tmp_path, monkeypatch
):
    flops = {"queries": 0.1, "passages": 0.1, "warmup": 6}
    loss = {"name": "info-nce", "flops": flops, "l1": {"queries": 0.1, "warmup": 0}}
    path = recipe(loss=loss, steps=6, accumulation=2, batch=4, validate={"every": 6})
    train(path, tmp_path / "calm")
    with stopped_at(monkeypatch, 4), pytest.raises(Interrupted):
        train(path, tmp_path / "cut")
    train(path, tmp_path / "cut")
    calm, cut = weights(tmp_path / "calm"), weights(tmp_path / "cut")
    assert calm.keys() == cut.keys()
    assert all(torch.equal(calm[name], cut[name]) for name in calm)


@pytest.mark.slow
def test_phases_pretrain_a_splade_model_and_hand_on_its_body(small_recipe, train, tmp_path):
    """Its head is that of the pre-training; an embedding takes the body alone."""
    start = make_splade(tmp_path / "start")
    whole = yaml.safe_load(small_recipe().read_text())
    shared = {n: whole[n] for n in ("format", "name", "collections", "guard", "resources")}
    shared |= {"steps": 2, "batch": 4, "optimiser": {"rate": 1.0e-3, "warmup": 1}}
    limits = {"query_limit": 12, "passage_limit": 40}
    taught = {"train": whole["train"], "loss": {"name": "info-nce"}}
    phases = [
        {
            "name": "words",
            "model": {"start": str(start), "preset": "bert", "total_limit": 48},
            "train": {"docs": {"collection": "docs"}},
            "loss": {"name": "masked-language-model"},
            "masking": {"next_sentence": False},
        },
        {"name": "splade", "model": {"preset": "splade", **limits}, **taught},
        {"name": "dense", "model": {"preset": "repbert", **limits}, **taught},
    ]
    path = tmp_path / "phases.yaml"
    # A rate of nearly 0: each model is what it began from.
    still = ["phases.1.optimiser={rate: 1.0e-30, warmup: 1, weight_decay: 0.0}"]
    still.append(still[0].replace("phases.1", "phases.2"))
    path.write_text(yaml.safe_dump({**shared, "phases": phases}))
    train(path, tmp_path / "out", *still)
    words, splade, dense = (
        load_file(tmp_path / "out" / "models" / name / "model.safetensors")
        for name in ("small.words", "small.splade", "small")
    )
    assert words.keys() == splade.keys() and all(map(torch.equal, words.values(), splade.values()))
    assert not torch.equal(words[WORDS], load_file(start / "model.safetensors")[WORDS])
    assert set(dense) == {n.removeprefix("bert.") for n in splade if not n.startswith("cls.")}


def test_a_decoder_of_its_own_is_refused_with_its_folder(recipe, train, tmp_path):
    file = tmp_path / "start" / "model.safetensors"
    tensors = load_file(file)
    tensors["cls.predictions.decoder.weight"] = tensors[WORDS] + 1
    save_file(tensors, file, metadata={"format": "pt"})
    told = r"start: cls.predictions.decoder.weight: expected the tensor that it is tied to"
    with pytest.raises(InputError, match=told):
        train(recipe(), tmp_path / "out")
