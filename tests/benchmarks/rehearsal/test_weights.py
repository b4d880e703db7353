"""Random models that the packaged recipes can use."""

import numpy as np

from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.in_memory import encode_texts
from rehearsal.weights import write_models

TEXTS = [f"a {word} passage about {word}s and other things" for word in "lease shard rank".split()]


def test_models_open_with_the_presets_of_the_recipes(tmp_path):
    write_models(tmp_path, TEXTS, 1)
    kinds = {"repbert": "repbert", "monobert-large": "monobert", "duobert-large": "duobert"}
    opened = {name: resolve_model(str(tmp_path / name), preset) for name, preset in kinds.items()}
    assert [model.conventions.kind for model in opened.values()] == ["encoder", "mono", "duo"]
    assert {model.config()["hidden_size"] for model in opened.values()} == {32}
    assert opened["duobert-large"].config()["type_vocab_size"] == 3


def test_vectors_of_the_sampled_passages_have_a_mean_of_zero_and_differ(tmp_path):
    write_models(tmp_path, TEXTS, 1)
    model = resolve_model(str(tmp_path / "repbert"), "repbert")
    vectors = encode_texts(model, TEXTS, side="passage", device="cpu").astype(np.float32)
    assert abs(vectors.mean(axis=0)).max() < 2e-3
    assert np.linalg.norm(vectors[0] - vectors[1]) > 0.1


def test_a_seed_decides_the_weights_and_older_folders_are_replaced(tmp_path):
    def weights(name):
        return (tmp_path / name / "model.safetensors").read_bytes()

    write_models(tmp_path, TEXTS, 1)
    first = {name: weights(name) for name in ("repbert", "monobert-large", "duobert-large")}
    write_models(tmp_path, TEXTS, 1)
    assert {name: weights(name) for name in first} == first
    write_models(tmp_path, TEXTS, 2)
    assert all(weights(name) != found for name, found in first.items())
