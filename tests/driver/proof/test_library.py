"""A packed model whose proof failed is its library's: its values, stores and forecast."""

import json
import shutil

import drawn_models
import numpy as np
import pytest
from json_files import changed, write
from peer_encoders import peer
from sentence_transformers import CrossEncoder, SentenceTransformer
from small_workspace import IDS, SMALL, TEXTS, run_small

import raypipe
from raypipe.driver.proof.proof import computable
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model

pytestmark = pytest.mark.slow
TOKENIZER = "tokenizer_config.json"
LEFT = {"truncation_side": "left"}
CASED = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
SPLIT = {"split_special_tokens": True}
NO_SEGMENTS = {"model_input_names": ["input_ids", "attention_mask"]}
ENCODERS = {"left": LEFT, "cased": CASED, "split": SPLIT}
RERANKERS = {"left-pairs": LEFT, "pairs-without-segments": NO_SEGMENTS}
QUERY = "A zebra"
PASSAGES = ["the Zebra " * 60, "a lease [SEP] of shards", "", "rank a query"]


@pytest.fixture
def encoder(tmp_path):
    """A folder of sentence-transformers whose long texts lose their beginning."""
    peer(tmp_path / "m", "bert", "mean")
    changed(tmp_path / "m" / TOKENIZER, **LEFT)
    return tmp_path / "m"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Folders whose proofs fail, all compared by one process, and the cache that has the proofs."""
    root, cache = (tmp_path_factory.mktemp(name) for name in ("folders", "cache"))
    for name in ENCODERS:
        peer(root / name, "bert", "mean")
    for name in RERANKERS:
        drawn_models.make(root / name, "bert", units=1)
    drawn_models.make(root / "bare", "bert")
    write(root / "bare" / "raypipe.json", {**drawn_models.ENCODER, "passage_limit": 40})
    for name, edits in {**ENCODERS, **RERANKERS, "bare": CASED}.items():
        changed(root / name / TOKENIZER, **edits)
    drawn_models.make(root / "untied", "bert", words=True, tie_word_embeddings=False)
    write(root / "untied" / "raypipe.json", {**drawn_models.ENCODER, "pooling": "splade"})
    models = {folder.name: resolve_model(str(folder)) for folder in root.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAYPIPE_UNPROVED")
        patch.setenv("XDG_CACHE_HOME", str(cache))
        assert all(model.by_library for model in computable(models).values())
    return root, cache


@pytest.fixture
def failed(compared, monkeypatch):
    """Those folders, whose proofs are in the user's cache."""
    folders, cache = compared
    monkeypatch.delenv("RAYPIPE_UNPROVED")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return folders


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_whose_proof_fails_has_the_librarys_embeddings(failed, name):
    library = SentenceTransformer(str(failed / name), device="cpu")
    found = raypipe.encode(PASSAGES, model=failed / name)
    assert np.abs(found - library.encode_document(PASSAGES)).max() < 2e-3  # stored as fp16
    found = raypipe.encode(PASSAGES, model=failed / name, prompts={"query": "", "passage": "a "})
    assert np.abs(found - library.encode(["a " + text for text in PASSAGES])).max() < 2e-3


def test_a_bare_encoder_whose_proof_fails_has_the_librarys_embeddings(failed):
    model = SentenceTransformer(str(failed / "bare"), device="cpu")  # pools the mean
    model.max_seq_length = 42
    found = raypipe.encode(PASSAGES, model=failed / "bare")
    assert np.abs(found - model.encode(PASSAGES)).max() < 2e-3


@pytest.mark.parametrize("name", RERANKERS)
def test_a_reranker_whose_proof_fails_has_the_librarys_scores(failed, name):
    pairs = [(QUERY, passage) for passage in PASSAGES]
    theirs = CrossEncoder(str(failed / name), device="cpu").predict(pairs)
    np.testing.assert_allclose(raypipe.score(pairs, model=failed / name), theirs, atol=1e-5)


def test_a_reranker_in_int8_that_becomes_its_librarys_says_what_it_is_computed_in(failed):
    model, said = resolve_model(str(failed / "left-pairs")).in_precision("int8"), []
    computed = computable({"m": model}, say=said.append)["m"]
    assert computed.precision == "fp32"
    (line,) = (each for each in said if "transformers computes it" in each)
    assert "sentence-transformers computes it, in fp32, not in int8, since" in line


def test_stores_and_forecast_are_those_of_the_librarys_model_and_nothing_is_proved_again(
    encoder, with_proofs_here, raypipe_here, tmp_path
):
    work, _, said = run_small(tmp_path, encoder)
    (line,) = (each for each in said if "sentence-transformers computes it" in each)
    assert line.startswith("models.tiny: ") and "it reads" in line
    model = SentenceTransformer(str(encoder), device="cpu")
    own = model.encode_query(["a zebra"]) @ model.encode_document(TEXTS).T
    ranked = [IDS[n] for n in np.argsort(-own[0])[:2]]
    run = (work / "runs" / "dev" / "dense.trec").read_text().splitlines()
    assert [each.split()[2] for each in run if each.startswith("q1 ")] == ranked
    (tmp_path / "recipe.yaml").write_text(SMALL.format(folder=tmp_path, model=encoder))
    recipe = tmp_path / "recipe.yaml"
    assert len([each for each in said if each.startswith("forecast: ")]) == 1, said
    planned = raypipe_here("plan", recipe, "--out", work)
    assert planned.returncode == 0 and "proving" not in planned.stderr
    for folder in (work / "stores" / "proofs", with_proofs_here):
        shutil.rmtree(folder)
    frozen = raypipe_here("pipeline", recipe, "--out", work, "--frozen")
    assert frozen.returncode == 0, frozen.stderr
    frozen = raypipe_here("pipeline", recipe, "--out", work, "--frozen", "stages.dense.depth=1")
    assert frozen.returncode == 4 and "stages.dense.depth" in frozen.stderr
    _, _, said = run_small(tmp_path, encoder)
    assert not [each for each in said if "proving" in each]
    stages = json.loads((work / "summary.json").read_text())["stages"]
    computed = [name for name, stage in stages.items() if not stage["reused"]]
    assert computed == ["count@collection"]  # its file is another one
    shown = raypipe_here("model", "show", encoder)
    assert shown.returncode == 0 and "sentence-transformers computes it" in shown.stdout


def test_a_token_that_only_the_library_adds_without_an_embedding_is_named(
    encoder, tmp_path, with_proofs_here
):
    changed(encoder / TOKENIZER, truncation_side="right", extra_special_tokens=["driverless"])
    with pytest.raises(InputError, match="computes too, and of the .* it reads word piece"):
        raypipe.encode(["a driverless lease"], model=encoder)
