"""When a proof is made, where it stands, and what follows from one that failed."""

import os
import re
import shutil
from dataclasses import replace

import drawn_models
import numpy as np
import pytest
from json_files import changed, write
from small_workspace import run_small
from tokenizers import Tokenizer

import raypipe
from raypipe.driver.mirror import user_cache
from raypipe.driver.proof.proof import computable, prove, subject_of
from raypipe.driver.proof.texts import VALUED, pairs_of, texts_of
from raypipe.errors import InputError, Interrupted
from raypipe.models.folder.model_folder import resolve_model
from raypipe.storage.root import open_storage


@pytest.fixture
def model(tmp_path):
    """A bare encoder with its raypipe.json."""
    drawn_models.make(tmp_path / "m", "bert")
    write(tmp_path / "m" / "raypipe.json", drawn_models.ENCODER)
    return tmp_path / "m"


def of_proofs(said):
    return [line for line in said if "proving" in line or "equal to" in line or "not as" in line]


def records(folder):
    return sorted(path.name for path in (folder / "proofs").glob("*"))


@pytest.mark.slow
def test_a_model_is_proved_once_before_its_first_row_and_the_proof_stands_with_the_stores(
    model, with_proofs, tmp_path
):
    work, _, said = run_small(tmp_path, model)
    begun, ended = of_proofs(said)
    assert begun.startswith("models.tiny: proving that raypipe computes it as transformers 5")
    assert re.fullmatch(
        r"models\.tiny: equal to transformers 5[\w.]+: \d{3} inputs, \d\d,\d{3} characters, "
        r"values of \d\d inputs within \d\.\de[+-]\d\d, in \d+\.\d s",
        ended,
    )
    (kept,) = records(work / "stores")
    assert records(with_proofs) == [kept]
    again = tmp_path / "again"
    again.mkdir()
    work, _, said = run_small(again, model)
    assert of_proofs(said) == [] and records(work / "stores") == [kept]
    shutil.rmtree(with_proofs)
    shutil.rmtree(work / "stores" / "vectors")
    assert of_proofs(run_small(again, model)[2]) == [] and records(with_proofs) == [kept]
    (proof,) = prove({"m": resolve_model(str(model))}).values()
    assert proof.problem == "" and proof.values >= 16 and proof.largest < 1e-5


@pytest.mark.slow
def test_a_model_that_differs_with_settings_that_no_library_has_is_computed_nowhere(
    model, with_proofs_here, raypipe_here, tmp_path
):
    changed(model / "raypipe.json", passage_segment=1)
    folder, cased = model, {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    changed(folder / "tokenizer_config.json", **cased)
    with pytest.raises(InputError) as caught:
        run_small(tmp_path, folder)
    (sentence,) = caught.value.problems
    assert sentence.startswith(f"models.tiny: {folder}: raypipe computes this model otherwise than")
    assert "it reads" in sentence and "bring its embeddings or run" in sentence
    stores = tmp_path / "work" / "stores"
    assert len(records(stores)) == 1 and not [*stores.glob("vectors*"), *stores.glob("tokens*")]
    with pytest.raises(InputError, match="otherwise than transformers"):
        raypipe.encode(["a lease"], model=folder)
    shown = raypipe_here("model", "show", folder)
    assert shown.returncode == 2 and "proof              not as transformers 5" in shown.stdout
    changed(folder / "tokenizer_config.json", do_lower_case=True)
    assert raypipe.encode(["a lease"], model=folder).shape == (1, 32)
    shown = raypipe_here("model", "show", folder)
    assert shown.returncode == 0 and "proof              equal to transformers 5" in shown.stdout


def test_nothing_is_proved_where_nothing_is_computed(tiny_model, tmp_path, monkeypatch):
    work, _, _ = run_small(tmp_path, tiny_model)
    monkeypatch.delenv("RAYPIPE_UNPROVED")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _, _, said = run_small(tmp_path, tiny_model)
    assert of_proofs(said) == []
    assert not (work / "stores" / "proofs").exists() and not (tmp_path / "cache").exists()


def test_a_plan_proves_nothing(tiny_model, with_proofs, raypipe_here, tmp_path):
    from small_workspace import SMALL, write_small

    write_small(tmp_path)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(SMALL.format(folder=tmp_path, model=tiny_model))
    planned = raypipe_here("plan", recipe, "--out", tmp_path / "work")
    assert planned.returncode == 0, planned.stderr
    assert not with_proofs.exists()


def test_a_process_that_ends_without_a_result_is_said(tiny_model, with_proofs, monkeypatch):
    from raypipe.driver.proof import proof

    monkeypatch.setattr(
        proof, "python_command", lambda module: ["sh", "-c", "echo gone >&2; exit 3"]
    )
    with pytest.raises(InputError, match="ended with 3: gone; RAYPIPE_UNPROVED=1 computes without"):
        computable({"m": resolve_model(str(tiny_model))})


def test_ctrl_c_that_ends_the_process_of_a_proof_is_an_interruption(
    tiny_model, with_proofs, monkeypatch
):
    from raypipe.driver.proof import proof

    monkeypatch.setattr(proof, "python_command", lambda module: ["sh", "-c", "kill -INT $$"])
    with pytest.raises(Interrupted, match="SIGINT: the same command resumes") as caught:
        computable({"m": resolve_model(str(tiny_model))})
    assert caught.value.exit_code == 130


def test_a_signal_to_the_driver_alone_ends_the_process_of_a_proof_at_once(
    tiny_model, with_proofs, monkeypatch
):
    from raypipe.driver.proof import proof
    from raypipe.driver.signals import interruptible

    script = f"kill -TERM {os.getpid()}; exec sleep 20"
    monkeypatch.setattr(proof, "python_command", lambda module: ["sh", "-c", script])
    with pytest.raises(Interrupted, match="SIGTERM") as caught, interruptible() as should_stop:
        try:
            computable({"m": resolve_model(str(tiny_model))})
        except Interrupted as error:
            assert should_stop() is not None and error.exit_code == 143
            raise
    assert caught.value.exit_code == 143


def test_settings_of_a_user_change_no_proof_of_a_folder_that_its_library_opens(tmp_path):
    folder = tmp_path / "m"
    drawn_models.make(folder, "bert", units=1)
    own = subject_of(resolve_model(str(folder)))
    assert own.own and own.library.startswith("sentence-transformers 6")
    other = resolve_model(str(folder), settings={"query_prefix": "q: ", "total_limit": 20})
    assert subject_of(replace(other).in_precision("bf16")) == own
    write(folder / "raypipe.json", {"score": "raw"})
    assert subject_of(resolve_model(str(folder))) == own
    bare = subject_of(
        resolve_model(
            str(folder), "monobert-longest-first", settings={"relevant_label": None, "score": "raw"}
        )
    )
    assert bare == own
    changed(folder / "config.json", architectures=["BertModel"])
    preset = {"relevant_label": None, "score": "raw"}
    bare = subject_of(resolve_model(str(folder), "monobert-longest-first", settings=preset))
    assert not bare.own and bare.library.startswith("transformers 5")


@pytest.mark.parametrize("name", ["sentence_bert_config.json", "1_Pooling/config.json"])
def test_a_file_that_the_library_reads_asks_for_another_proof(tiny_model, tmp_path, name):
    from raypipe.driver.proof.proof import _name

    folder = shutil.copytree(tiny_model, tmp_path / "m")
    before = _name(subject_of(resolve_model(str(folder))))
    write(folder / name, {"a": 1})
    after = _name(subject_of(resolve_model(str(folder))))
    write(folder / name, {"a": 2})
    assert len({before, after, _name(subject_of(resolve_model(str(folder))))}) == 3


def test_a_proofs_name_has_the_sources_that_decide_values_and_no_others(
    tiny_model, tmp_path, monkeypatch
):
    from raypipe import package
    from raypipe.driver.proof.proof import _name

    subject = subject_of(resolve_model(str(tiny_model)))
    copy = shutil.copytree(package.FOLDER, tmp_path / "raypipe")
    monkeypatch.setattr(package, "FOLDER", copy)

    def name_after(file):
        (copy / file).write_text((copy / file).read_text() + "# more\n")
        package.package_sha256.cache_clear()
        return _name(subject)

    package.package_sha256.cache_clear()
    before = _name(subject)
    others = ("cli/main.py", "stages/encode.py", "driver/pipeline.py", "models_of_mine.py")
    (copy / others[-1]).write_text("")
    assert {name_after(file) for file in others} == {before}
    deciding = (
        "models/bert/forward.py", "models/scorer.py", "text/inputs.py", "numerics.py",
        "stages/tokenize.py", "driver/proof/reference.py", "driver/proof/texts.py",
    )  # fmt: skip
    assert len({before, *map(name_after, deciding)}) == 1 + len(deciding)
    package.package_sha256.cache_clear()


def test_a_record_is_read_from_either_place_and_a_damaged_one_counts_as_none(with_proofs, tmp_path):
    from raypipe.driver.proof.proof import Proof, _keep, _kept

    storage, name = open_storage(str(tmp_path / "stores")), "proofs/a.json"
    proof = Proof("a 1", 2, 1, 0.5, 3.0, "", characters=4_000)
    assert (
        str(proof) == "equal to a 1: 2 inputs, 4,000 characters, values of 1 inputs within 5.0e-01"
    )
    assert "2 inputs, values of 1 inputs" in str(replace(proof, characters=0))
    _keep(name, proof, storage)
    assert (
        _kept(name, None) == _kept(name, storage) == proof and _kept("proofs/b.json", None) is None
    )
    (with_proofs / name).write_text("{}")
    assert _kept(name, None) is None and _kept(name, storage) == proof
    _keep(name, proof, None)
    assert _kept(name, None) == proof  # a damaged one is written anew
    (with_proofs / name).unlink()
    (tmp_path / "stores" / name).unlink()
    assert _kept(name, storage) is None
    shutil.rmtree(with_proofs)
    with_proofs.write_text("no folder")
    _keep(name, proof, storage)
    assert _kept(name, None) is None and _kept(name, storage) == proof


def test_a_user_without_a_home_keeps_proofs_with_the_stores_alone(
    with_proofs, monkeypatch, tmp_path
):
    from raypipe.driver.proof.proof import Proof, _keep, _kept

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54_321)  # has no name in most containers
    storage, proof = open_storage(str(tmp_path / "stores")), Proof("a 1", 2, 1, 0.5, 3.0, "")
    _keep("proofs/a.json", proof, storage)
    assert _kept("proofs/a.json", storage) == proof and _kept("proofs/a.json", None) is None
    with pytest.raises(InputError, match="user 54321: expected a home folder"):
        user_cache()


def test_a_cache_that_is_not_named_absolutely_is_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert user_cache() == tmp_path / ".cache" / "raypipe"


@pytest.mark.parametrize("limit", [1, 6, 40])
def test_texts_hold_added_tokens_own_words_and_every_length_around_the_limit(tiny_model, limit):
    tokenizer = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    tokenizer.add_special_tokens(["<odd>"])
    texts = texts_of(tokenizer, limit)
    assert set(VALUED) < {*texts.valued} and len(texts.valued) >= 16
    every = [*texts.valued, *texts.full, *texts.others]
    lengths = {len(tokenizer.encode(text).ids) for text in every}
    assert {limit, limit + 1} <= lengths and len(tokenizer.encode(texts.full[0]).ids) > 2 * limit
    assert any("two<odd>three" in text for text in every) and any("zebra" in text for text in every)
    assert any("ZEBRA" in text for text in every) and "" in every
    short, full, others = pairs_of(texts, texts, 2)
    assert len(short) >= 16 and {len(row) for row in [*short, *full, *others]} == {3}
    assert {row[0] for row in short} == {*texts.valued} == {row[1] for row in short}


@pytest.mark.slow
def test_a_folder_that_its_library_cannot_open_is_tried_again_the_next_time(
    model, with_proofs_here
):
    japanese = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}
    changed(model / "tokenizer_config.json", **japanese)
    (model / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    (proof,) = prove({"m": resolve_model(str(model))}).values()
    assert proof.refused and "it cannot open or compute it: You need to install" in proof.problem
    assert records(with_proofs_here) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        ([0.5, 1.00009], [0.5, 1.0], None),
        ([0.5, 1.0002], [0.5, 1.0], 1),
        ([3353.67, -0.2], [3353.64, -0.2], None),
        ([3353.70, -0.2], [3353.64, -0.2], 0),
        ([3353.64, -0.2], [3353.64, -0.2002], 1),
        ([0.0, np.nan], [0.0, np.nan], 1),
        ([np.inf, 0.0], [1.0, 0.0], 0),
        ([1.0, 0.0], [np.inf, 0.0], 0),
        ([], [], None),
    ],
)
def test_values_may_differ_by_a_ten_thousandth_and_large_ones_by_a_hundred_thousandth_part(
    ours, theirs, place
):
    from raypipe.driver.proof.reference import differing

    assert differing(*(np.array(each, np.float32) for each in (ours, theirs))) == place
