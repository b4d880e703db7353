"""The proof of a training's start: as its own library has it, or nothing is trained."""

import json

import drawn_models
import pytest
from json_files import changed, write
from peer_encoders import peer
from safetensors.torch import load_file, save_file

from raypipe.config.load import load_training
from raypipe.driver.proof.reference import prove
from raypipe.driver.training.place import start_model
from raypipe.driver.training.start import (
    check_start,
    subject_of_start,
    with_own_settings,
)
from raypipe.errors import InputError
from raypipe.storage.posix import PosixStorage
from raypipe.training.job import Job

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fewer_characters")]
ENCODER = {"preset": "repbert", "query_limit": 8, "passage_limit": 40, "total_limit": None}
SPLADE = {**ENCODER, "preset": "splade"}
DUO = {"preset": "duobert", "query_limit": 12, "passage_limit": 20}
OWN = {"preset": None, "query_limit": None, "total_limit": None}
TOKENIZER = "tokenizer_config.json"
CASED = {TOKENIZER: {"tokenizer_class": "BertTokenizer", "do_lower_case": False}}
READ_BY_LIBRARY = {"sentence_bert_config.json": {"do_lower_case": True}}
LEFT = {TOKENIZER: {"truncation_side": "left"}}
LIMITED = {**OWN, "passage_limit": 40}
STATED = {**OWN, "settings": {**drawn_models.ENCODER, "pooling": "cls"}}


@pytest.fixture
def job(small_recipe, tmp_path):
    def made(start, loss="cross-entropy", **model):
        path = small_recipe(model={"start": str(start), **model}, loss={"name": loss})
        recipe = with_own_settings(load_training(path))
        return Job(recipe, start_model(recipe), (), (), PosixStorage(tmp_path / "stores"))

    return made


def start_of(folder, kind, units=None, **made):
    drawn_models.make(folder, kind, units=units, **made)
    return folder


@pytest.mark.parametrize(
    ("kind", "made", "model", "loss", "compared"),
    [
        ("bert", {}, ENCODER, "info-nce", "mean"),
        ("modernbert", {}, ENCODER, "info-nce", "mean"),
        ("bert", {}, {"draw_missing": True}, "cross-entropy", "mean"),
        ("distilbert", {"units": 2}, {}, "cross-entropy", "mono"),
        ("modernbert", {"units": 1}, {"head": 1}, "pairwise-hinge", "mono"),
        ("roberta", {"units": 1}, {}, "cross-entropy", "mean"),
        ("roberta", {"words": True}, SPLADE, "info-nce", "splade"),
        ("bert", {}, {**SPLADE, "draw_missing": True}, "info-nce", "mean"),
    ],
)
def test_a_start_is_compared_with_its_head_where_the_training_begins_with_that(
    job, tmp_path, kind, made, model, loss, compared
):
    subject = subject_of_start(job(start_of(tmp_path / "m", kind, **made), loss, **model))
    settings = subject.model.conventions
    assert (subject.own, getattr(settings, "pooling", settings.kind)) == (False, compared)
    finding = prove(subject, 1)
    assert finding["problem"] == "" and finding["values"] >= 16 and finding["largest"] < 1e-5


@pytest.mark.parametrize("model", [{}, ENCODER])
def test_a_start_under_a_compilers_names_is_compared_as_it_is_read(job, tmp_path, model):
    folder = start_of(tmp_path / "m", "bert", 2)
    tensors = load_file(folder / "model.safetensors")
    renamed = {f"_orig_mod.{name}": tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    loss = "info-nce" if model else "cross-entropy"
    finding = prove(subject_of_start(job(folder, loss, **model)), 1)
    assert finding["problem"] == "" and finding["values"] >= 16


@pytest.mark.parametrize(("rows", "row"), [(2, "copy"), (3, None)])
def test_a_duobert_start_is_compared_with_the_third_segment_row_that_it_gets(
    job, tmp_path, rows, row
):
    folder = start_of(tmp_path / "m", "bert", 2)
    if rows == 3:
        changed(folder / "config.json", type_vocab_size=3)
        tensors = load_file(folder / "model.safetensors")
        name = next(each for each in tensors if "token_type" in each)
        tensors[name] = tensors[name][[0, 1, 0]].contiguous()
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    subject = subject_of_start(job(folder, **DUO))
    assert subject.model.conventions.segment_row == row
    assert prove(subject, 1)["problem"] == ""


@pytest.mark.parametrize(
    ("edits", "model", "problem"),
    [
        ({}, ENCODER, ""),
        (CASED, ENCODER, "it reads"),
        (CASED, {"draw_missing": True}, "it reads"),
        (LEFT, ENCODER, ""),
        (READ_BY_LIBRARY, ENCODER, ""),
        ({}, OWN, ""),
        (LEFT, OWN, "it reads"),
        (LEFT, LIMITED, "it reads"),
        (LEFT, STATED, ""),
    ],
)
def test_a_start_that_its_library_reads_otherwise_is_told(job, tmp_path, edits, model, problem):
    peer(tmp_path / "m", "bert", "mean")
    for file, values in edits.items():
        changed(tmp_path / "m" / file, **values)
    loss = "cross-entropy" if "draw_missing" in model else "info-nce"
    subject = subject_of_start(job(tmp_path / "m", loss, **model))
    assert subject.own == (model in (OWN, LIMITED))
    told = prove(subject, 1)["problem"]
    assert problem in told and bool(told) == bool(problem)


def test_nothing_is_trained_from_a_start_that_differs_and_its_proof_is_kept(
    job, with_proofs_here, tmp_path
):
    folder = start_of(tmp_path / "m", "bert", 2)
    said = []
    check_start(job(folder), PosixStorage(tmp_path / "stores"), said.append)
    assert [line.split()[1] for line in said] == ["proving", "equal"]
    check_start(job(folder), PosixStorage(tmp_path / "stores"), said.append)
    assert len(said) == 2
    write(folder / TOKENIZER, {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    with pytest.raises(InputError, match="model.start: .* and so trains nothing from it; of the"):
        check_start(job(folder), PosixStorage(tmp_path / "stores"), said.append)


def test_a_start_that_its_library_cannot_open_is_told_without_a_remedy_by_that_library(
    job, with_proofs_here, tmp_path
):
    folder = start_of(tmp_path / "m", "bert", 2)
    tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(tokens, key=tokens.get)))
    with pytest.raises(InputError, match="computes too, and it cannot open .*: Couldn't") as told:
        check_start(job(folder), PosixStorage(tmp_path / "stores"), [].append)
    assert "save_pretrained" not in str(told.value)


def test_a_training_proves_its_start_before_its_first_step(
    train, small_recipe, with_proofs, tmp_path
):
    folder = start_of(tmp_path / "m", "bert", 2)
    changed(folder / TOKENIZER, tokenizer_class="BertTokenizer", do_lower_case=False)
    with pytest.raises(InputError, match="trains nothing from it"):
        train(small_recipe(model={"start": str(folder)}), tmp_path / "out")
    assert not [*(tmp_path / "out").rglob("progress.jsonl")]
