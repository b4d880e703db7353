import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from training_texts import pair_conventions, start

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.settings import Conventions
from raypipe.training.start import starting_tensors_of

SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


def held(*names, rows=2):
    return {name: torch.full((rows, 4), float(n)) for n, name in enumerate(names)}


def test_names_get_their_prefix_and_what_no_model_reads_is_left_out():
    encoder = Conventions(
        pooling="cls", normalise=True, query_segment=0, passage_segment=0, query_limit=1,
        passage_limit=1,
    )  # fmt: skip
    names = ("embeddings.x", "encoder.layer.0.y", "embeddings.position_ids", "pooler.dense.weight",
             "cls.predictions", "classifier.weight")  # fmt: skip
    given = held("embeddings.x")
    plain = start(encoder, held(*names))
    assert sorted(plain) == ["bert.embeddings.x", "bert.encoder.layer.0.y"]
    whole = start(encoder, held(*(f"bert.{name}" for name in names[:4]), "cls.predictions"))
    assert (
        sorted(whole) == sorted(plain)
        and whole["bert.encoder.layer.0.y"].tolist() == [[1.0] * 4] * 2
    )
    mixed = {"bert.embeddings.x": torch.zeros(1), SEGMENTS: torch.zeros(2, 4)}
    mono = start(pair_conventions(), {**mixed, "cls.predictions.bias": torch.zeros(1)})
    assert "bert.embeddings.x" in mono and not [name for name in mono if "predictions" in name]
    half = {"embeddings.x": given["embeddings.x"].half()}
    assert start(encoder, half)["bert.embeddings.x"].dtype == torch.float32
    start(encoder, given)["bert.embeddings.x"].fill_(7.0)
    assert given["embeddings.x"].max() == 0.0, "the checkpoint's own tensors stay"


def test_a_missing_head_is_drawn_by_the_seed_and_one_that_is_there_is_kept():
    mono = pair_conventions()
    base = {SEGMENTS: torch.zeros(2, 4)}
    drawn = start(mono, base)
    generator = torch.Generator().manual_seed(3)
    pooler = torch.randn(4, 4, generator=generator) * 0.5
    head = torch.randn(2, 4, generator=generator) * 0.5
    assert torch.equal(drawn["bert.pooler.dense.weight"], pooler)
    assert torch.equal(drawn["classifier.weight"], head)
    assert drawn["bert.pooler.dense.bias"].tolist() == [0.0] * 4
    assert drawn["classifier.bias"].tolist() == [0.0] * 2
    own = {**base, "bert.pooler.dense.weight": torch.ones(4, 4),
           "bert.pooler.dense.bias": torch.ones(4), "classifier.weight": torch.ones(2, 4),
           "classifier.bias": torch.ones(2)}  # fmt: skip
    kept = start(mono, own)
    assert all(torch.equal(kept[name], own[name]) for name in own)
    one = start(mono, own, units=1)
    assert one["classifier.weight"].shape == (1, 4) and one["classifier.bias"].tolist() == [0.0]
    assert torch.equal(one["bert.pooler.dense.weight"], torch.ones(4, 4))


@pytest.mark.parametrize(("row", "expected"), [("zero", [0.0] * 4), ("copy", [1.0] * 4)])
def test_a_duo_gets_its_third_segment_row_once(row, expected):
    duo = pair_conventions("duo", segment_row=row)
    two = {f"bert.{SEGMENTS.removeprefix('bert.')}": torch.tensor([[0.5] * 4, [1.0] * 4])}
    assert start(duo, two)[SEGMENTS][2].tolist() == expected
    assert start(pair_conventions(), two)[SEGMENTS].shape == (2, 4)
    three = {SEGMENTS: torch.arange(12.0).view(3, 4)}
    assert torch.equal(start(duo, three)[SEGMENTS], three[SEGMENTS])


def test_weights_that_are_no_numbers_are_named_before_the_first_step(tiny_mono, tmp_path):
    mono = shutil.copytree(tiny_mono, tmp_path / "mono")
    file = mono / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("bias"))
    tensors[name][1] = float("nan")
    save_file(tensors, file, metadata={"format": "pt"})
    job = SimpleNamespace(start=resolve_model(str(mono)), is_pretraining=False)
    with pytest.raises(InputError, match=f"{mono}: {name}: expected finite numbers, found NaN"):
        starting_tensors_of(job)
