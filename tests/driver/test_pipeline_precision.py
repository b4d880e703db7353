"""The precision of an invocation: chosen before the plan, written down, part of every value."""

import pytest
import yaml
from recipes import dense, stored, write_files
from stage_inputs import vectors_of

import raypipe
from raypipe.errors import InputError

TEXTS = {f"p{n}": " ".join(["zebra", "lease", "shards", "rank"][: 1 + n % 4]) for n in range(12)}


def recipe_of(folder, model, **resources):
    write_files(folder, TEXTS, {"q1": "zebra lease"})
    return yaml.safe_load(dense(folder, model, **resources))


def test_a_precision_is_computed_written_down_and_stored_apart(tmp_path, tiny_model, with_bf16):
    found = {}
    for precision, told in (("auto", "fp32"), ("bf16", "bf16"), ("fastest", "bf16")):
        recipe = recipe_of(tmp_path, tiny_model, precision=precision)
        done = raypipe.run(recipe, tmp_path / "work")
        assert f"precision: {told}" in (tmp_path / "work" / "recipe.yaml").read_text()
        assert f", {told}," in done.summary["device"]
        store = stored(tmp_path / "work", done.summary, "vectors")
        vectors = vectors_of(store).tobytes()
        expected = raypipe.encode(TEXTS, tiny_model, device="cpu", precision=precision)
        assert vectors == expected.tobytes()
        assert store.manifest.records[0].facts["numerics"].split(",")[-1].strip() == told
        found[precision] = store.manifest.fingerprint, vectors
    assert len({key for key, _ in found.values()}) == len({row for _, row in found.values()}) == 2


def test_a_precision_that_the_machine_lacks_is_refused_before_any_work(tmp_path, tiny_model):
    with pytest.raises(InputError, match="resources.precision: tf32: expected one of fp32"):
        raypipe.run(recipe_of(tmp_path, tiny_model, precision="tf32"), tmp_path / "work")
    assert not [*(tmp_path / "work").rglob("passages@collection")]
    with pytest.raises(InputError, match="expected one of auto, fastest, fp32.*found 'fp8'"):
        raypipe.encode(TEXTS, tiny_model, precision="fp8")
