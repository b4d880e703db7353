import json
import shutil
from types import SimpleNamespace

import drawn_models
import pytest
from safetensors.torch import load_file, save_file
from sparse_models import make_splade
from training_body import recipe

from raypipe.cluster import ray_start
from raypipe.driver import devices
from raypipe.driver.devices import Devices
from raypipe.driver.place import WorkPlace, place_for, threads_of
from raypipe.driver.training import place
from raypipe.driver.training.place import check_fits, start_model
from raypipe.errors import InputError
from raypipe.models.family import FAMILIES
from raypipe.models.folder.model_folder import RANDOM, resolve_model


def chosen(device="cpu", gpus=0, threads=3):
    return Devices(device, gpus, "", gpus, 1, threads, "2")


HERE, THERE = WorkPlace("ray"), WorkPlace("ray", ray_address="x:1")


TINY = SimpleNamespace(
    adapter=None,
    config=lambda: {"max_position_embeddings": 64},
    weights_sha256=RANDOM,
    family=FAMILIES["bert"],
)
"""Its tensors are not looked at."""


def test_inputs_exactly_as_long_as_the_model_fit():
    check_fits(recipe(), TINY, chosen(), HERE)
    with pytest.raises(InputError, match="limits allow 65 tokens, /m/start has 64 positions"):
        check_fits(recipe(model={"total_limit": 65}), TINY, chosen(), HERE)
    encoder = {"start": "/m/start", "preset": "repbert", "total_limit": None}
    for limits, good in (((62, 8), True), ((8, 62), True), ((63, 8), False), ((8, 63), False)):
        given = {**encoder, "query_limit": limits[0], "passage_limit": limits[1]}
        if good:
            check_fits(recipe(model=given, loss={"name": "pairwise-hinge"}), TINY, chosen(), HERE)
        else:
            with pytest.raises(InputError, match="allow 65 tokens"):
                check_fits(
                    recipe(model=given, loss={"name": "pairwise-hinge"}), TINY, chosen(), HERE
                )


def test_segments_are_no_more_than_the_rows_of_the_start():
    one = {"max_position_embeddings": 512, "type_vocab_size": 1}
    start = SimpleNamespace(**{**vars(TINY), "config": lambda: one})
    settings = {"start": "/m/start", "preset": "repbert", "total_limit": None}
    encoder = recipe(model=settings, loss={"name": "pairwise-hinge"})
    told = "model: its settings use segment 1, /m/start has 1 segment row; name settings with"
    for trained in (recipe(), encoder):
        with pytest.raises(InputError, match=told):
            check_fits(trained, start, chosen(), HERE)
    plain = recipe(model={**settings, "preset": "minilm"}, loss={"name": "pairwise-hinge"})
    check_fits(plain, start, chosen(), HERE)
    check_fits(
        encoder, SimpleNamespace(**{**vars(start), "family": FAMILIES["roberta"]}), chosen(), HERE
    )


def test_workers_are_no_more_than_the_gpus_of_this_machine():
    two = recipe(resources={"backend": "ray", "workers": 2})
    check_fits(two, TINY, chosen("cuda", 2), HERE)
    check_fits(two, TINY, chosen("cpu"), HERE)
    check_fits(two, TINY, chosen("cuda", 1), THERE)  # a cluster may have more
    with pytest.raises(InputError, match="resources.workers: 2 requested, 1 GPUs found"):
        check_fits(two, TINY, chosen("cuda", 1), HERE)


@pytest.mark.parametrize(
    ("kind", "preset", "why"),
    [
        ("mpnet", "minilm", "model_type 'mpnet' is not among"),
        ("modernbert", "splade", "a masked-word head of modernbert"),
    ],
)
def test_a_model_that_its_library_computes_is_not_trained(tmp_path, kind, preset, why):
    drawn_models.make(tmp_path, kind)
    model = {"start": str(tmp_path), "preset": preset, "total_limit": None}
    told = f"^model.start: .* sentence-transformers computes this one: {why}"
    with pytest.raises(InputError, match=told):
        start_model(recipe(model=model, loss={"name": "pairwise-hinge"}))


def test_an_adapter_is_not_trained_over_another():
    over = SimpleNamespace(**{**vars(TINY), "adapter": "a"})
    check_fits(recipe(), over, chosen(), HERE)
    trained = recipe(model={"adapter": {"rank": 4}})
    check_fits(trained, TINY, chosen(), HERE)
    with pytest.raises(InputError, match="is an adapter itself"):
        check_fits(trained, over, chosen(), HERE)


@pytest.mark.parametrize(
    ("resources", "gpus", "at", "expected"),
    [
        ({}, 0, HERE, 12),
        ({"backend": "ray", "workers": 5}, 0, HERE, 2),
        ({"backend": "ray", "workers": 2}, 5, HERE, 2),
        ({"workers": 1}, 4, HERE, 3),
        ({"backend": "ray", "workers": 50}, 0, HERE, 1),
        ({"backend": "ray", "threads": 7, "workers": 5}, 0, THERE, 7),
        ({"backend": "ray"}, 0, THERE, 3),
        ({"backend": "ray"}, 0, HERE, 12),
        ({}, 0, WorkPlace("inline", ray_address="x:1"), 12),
    ],
)
def test_cores_are_shared_among_the_workers(monkeypatch, resources, gpus, at, expected):
    monkeypatch.setattr(devices, "num_cores", lambda: 12)
    given = recipe(resources={"backend": "inline", **resources}).resources
    assert threads_of(given, at, chosen(gpus=gpus)) == expected


def test_an_inline_training_is_here_whatever_the_cluster(monkeypatch):
    given = recipe(resources={"backend": "inline", "device": "cpu", "threads": 2}).resources
    here = WorkPlace("inline", ray_address="x:1")
    with place_for(given, here) as found:
        assert (found.devices.device, found.devices.threads) == ("cpu", 2)
        assert found.sizing.num_actors == found.devices.num_actors >= 1
        backend = found.backends.get()
        assert (type(backend).__name__, backend._device, backend._threads) == (
            "InlineBackend",
            "cpu",
            2,
        )
    none = Devices("cuda", 0, "", 0, 0, 1, "2")
    monkeypatch.setattr(devices, "choose", lambda device, **asked: none)
    with place_for(given, HERE) as found:
        assert found.devices.num_actors == found.sizing.num_actors == 1


@pytest.mark.parametrize("at", [HERE, THERE])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_precision_that_is_told_is_the_recipes_and_no_worker_is_asked_for_one(
    monkeypatch, at, precision
):
    """A training computes in what the recipe says, and has no `auto`."""
    monkeypatch.setattr(ray_start, "connect", lambda *at, **how: {"CPU": 4.0, "GPU": 2.0})
    monkeypatch.setattr(devices, "gpu_capability", lambda: pytest.fail("a worker was asked"))
    given = {"device": "cpu" if at is HERE else "auto", "precision": precision}
    with place_for(recipe(resources=given).resources, at) as found:
        assert f", {precision}, " in found.devices.line()


def test_a_start_has_the_recipes_conventions_unless_it_is_packaged(tiny_model, monkeypatch):
    asked = []

    def resolve(path, preset=None, **settings):
        asked.append((path, preset, settings.get("settings")))
        return resolve_model(path, preset, **settings)

    monkeypatch.setattr(place, "resolve_model", resolve)
    start_model(recipe(model={"start": str(tiny_model)}))
    start_model(recipe(model={"start": "minilm"}))
    start_model(recipe(model={"start": "minilm-mono"}))
    assert [each[:2] for each in asked] == [
        (str(tiny_model), "monobert"),
        ("minilm", None),
        ("minilm-mono", None),
    ]
    own = {"kind": "mono", "query_limit": 9, "passage_limit": None, "total_limit": 40}
    own |= {"relevant_label": 1, "score": "log-probability"}
    found = start_model(recipe(model={"start": str(tiny_model), "preset": None, "settings": own}))
    assert found.conventions.to_json() == {**own, "segment_row": None} | {
        "query_prefix": "",
        "passage_prefix": "",
        "first_tokenizer": False,
        "prompt": None,
        "answers": None,
        "precision": "fp32",
    }
    assert asked[-1] == (str(tiny_model), "monobert", own)


def test_a_splade_model_begins_from_a_bert_with_its_masked_word_head(tiny_model, tmp_path):
    folder = make_splade(tmp_path / "splade")
    own = json.loads((folder / "raypipe.json").read_text())
    limits = {"query_limit": 20, "passage_limit": 62, "total_limit": None}
    told = "model.start: .*: the checkpoint lacks the tensor cls.predictions.bias; start from one"

    def check(start, **model):
        model = {"start": str(start), "preset": "splade", **limits, **model}
        made = recipe(model=model, loss={"name": "info-nce"})
        check_fits(made, start_model(made), chosen(), HERE)

    check(folder)
    check(folder, preset=None, settings=own)
    check(tiny_model, draw_missing=True)
    for without in (tiny_model, "minilm"):
        with pytest.raises(InputError, match=told):
            check(without)
    tensors = load_file(folder / "model.safetensors")
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    check(folder)  # the bias that it is tied to


def test_a_start_that_cannot_be_used_is_told_under_its_key(tiny_model, tmp_path):
    bare = shutil.copytree(tiny_model, tmp_path / "bare")
    path = bare / "tokenizer.json"
    path.write_text(path.read_text().replace("[SEP]", "[END]"))
    with pytest.raises(InputError, match=rf"model\.start: {bare}: the tokenizer has no .*\[SEP\]"):
        start_model(recipe(model={"start": str(bare)}))
    (bare / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.start: .*expected model.safetensors"):
        start_model(recipe(model={"start": str(bare)}))
