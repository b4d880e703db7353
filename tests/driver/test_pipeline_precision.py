"""The precision of an invocation: chosen before the plan, written down, part of every value."""

import numpy as np
import pytest

import raypipe
from raypipe.errors import InputError
from raypipe.storage.ledger import read_manifest
from raypipe.storage.store import Stored

TEXTS = {f"p{n}": " ".join(["zebra", "lease", "shards", "rank"][: 1 + n % 4]) for n in range(12)}


def recipe_of(folder, model, **resources):
    (folder / "passages.tsv").write_text("".join(f"{p}\t{t}\n" for p, t in TEXTS.items()))
    (folder / "queries.tsv").write_text("q1\tzebra lease\n")
    return {
        "format": 1,
        "name": "precise",
        "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
        "queries": {"test": {"file": f"{folder}/queries.tsv"}},
        "models": {"tiny": {"path": str(model)}},
        "stages": {
            "vectors": {"do": "encode", "model": "tiny"},
            "dense": {"do": "search", "index": "vectors"},
        },
        "resources": {"backend": "inline", "device": "cpu", **resources},
    }


def vectors_of(done, stores):
    places = dict(place.split("/") for place in done.summary["stores"])
    stored = Stored(stores, read_manifest(stores, "vectors", places["vectors"]))
    return np.concatenate([stored.vectors(record) for record in stored.manifest.records]), stored


def test_a_precision_is_computed_written_down_and_stored_apart(tmp_path, tiny_model, with_bf16):
    from raypipe.driver.workspace import Workspace

    found = {}
    for precision, told in (("auto", "fp32"), ("bf16", "bf16"), ("fastest", "bf16")):
        recipe = recipe_of(tmp_path, tiny_model, precision=precision)
        done = raypipe.run(recipe, tmp_path / "work")
        assert f"precision: {told}" in (tmp_path / "work" / "recipe.yaml").read_text()
        assert f", {told}," in done.summary["device"]
        vectors, stored = vectors_of(done, Workspace(tmp_path / "work").stores)
        expected = raypipe.encode(TEXTS, tiny_model, device="cpu", precision=precision)
        assert vectors.tobytes() == expected.tobytes()
        assert stored.manifest.records[0].facts["numerics"].split(",")[-1].strip() == told
        found[precision] = stored.manifest.fingerprint, vectors.tobytes()
    assert len({key for key, _ in found.values()}) == len({row for _, row in found.values()}) == 2


def test_a_precision_that_the_machine_lacks_is_refused_before_any_work(tmp_path, tiny_model):
    with pytest.raises(InputError, match="resources.precision: tf32: expected one of fp32"):
        raypipe.run(recipe_of(tmp_path, tiny_model, precision="tf32"), tmp_path / "work")
    assert not [*(tmp_path / "work").rglob("passages@collection")]
    with pytest.raises(InputError, match="expected one of auto, fastest, fp32.*found 'fp8'"):
        raypipe.encode(TEXTS, tiny_model, precision="fp8")
