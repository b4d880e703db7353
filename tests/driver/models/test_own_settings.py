"""A training recipe without a preset: the start says its own settings, whatever folder it is."""

import json

import pytest
import yaml
from peer_encoders import peer
from sparse_models import make_routed

from raypipe.config.load import load_training
from raypipe.driver.training.start import with_own_settings
from raypipe.errors import InputError
from raypipe.models.folder.settings import Conventions, PairConventions
from raypipe.training.job import conventions_of_training

BODY = {
    "format": 1,
    "name": "small",
    "collections": {"c": {"format": "msmarco-v1", "input": "/c.tsv"}},
    "train": {
        "t": {"collection": "c", "queries": "/q", "qrels": "/j", "negatives": {"runs": "/r"}}
    },
    "steps": 4,
    "batch": 2,
    "optimiser": {"warmup": 1},
}


def described(start, loss="cross-entropy", **model):
    """The recipe of this start with the settings that it finds."""
    body = {**BODY, "model": {"start": str(start), **model}, "loss": {"name": loss}}
    return with_own_settings(load_training(yaml.safe_dump(body)))


def settings_of(recipe):
    assert recipe.model.preset is None
    return conventions_of_training(recipe.model)


def test_a_folder_with_raypipe_json_says_them(tiny_mono, tiny_model):
    body = json.loads((tiny_mono / "raypipe.json").read_text())
    found = settings_of(described(tiny_mono))
    assert found.kind == "mono" == body["kind"] and found.total_limit == body["total_limit"]
    encoder = settings_of(described(tiny_model, "info-nce"))
    assert isinstance(encoder, Conventions)
    assert (
        encoder.query_limit == json.loads((tiny_model / "raypipe.json").read_text())["query_limit"]
    )


def test_a_sentence_transformers_folder_says_them(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from sentence_transformers import SentenceTransformer, models

    own = models.Transformer(str(tiny_model), max_seq_length=40)
    pooled = models.Pooling(own.get_word_embedding_dimension(), pooling_mode="cls")
    SentenceTransformer(modules=[own, pooled]).save(str(tmp_path / "st"))
    found = settings_of(described(tmp_path / "st", "info-nce"))
    assert (found.pooling, found.normalise, found.passage_limit) == ("cls", False, 38)


def test_an_included_adapter_and_the_packaged_model_say_them():
    assert settings_of(described("minilm-mono")).kind == "mono"
    assert settings_of(described("minilm-duo")).kind == "duo"
    packaged = settings_of(described("minilm", "info-nce"))
    assert packaged.normalise and packaged.passage_limit == 254


def test_a_cross_encoder_of_one_unit_keeps_it_unless_the_recipe_says_two(tiny, tmp_path):
    body = {"kind": "mono", "query_limit": None, "passage_limit": None, "total_limit": 32}
    folder = tiny.make_tiny_reranker(tmp_path / "one", seed=1)
    told = {**body, "relevant_label": None, "score": "raw"}
    config = json.loads((folder / "config.json").read_text())
    (folder / "raypipe.json").write_text(json.dumps(told))
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name][:1].copy()
    save_file(weights, folder / "model.safetensors")
    config |= {"num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    (folder / "config.json").write_text(json.dumps(config))
    one = described(folder, "pairwise-hinge")
    assert one.model.head == 1 and settings_of(one).relevant_label is None
    two = described(folder, "cross-entropy", head=2)
    assert two.model.head == 2 and settings_of(two).relevant_label == 1


def test_the_recipes_limits_lie_over_the_starts_own(tiny_mono):
    found = settings_of(described(tiny_mono, query_limit=5, total_limit=20))
    assert isinstance(found, PairConventions)
    assert (found.query_limit, found.total_limit) == (5, 20)


def test_a_preset_or_settings_stay_and_the_folder_is_not_read():
    recipe = load_training(
        yaml.safe_dump(
            {
                **BODY,
                "model": {"start": "/none", "preset": "monobert"},
                "loss": {"name": "cross-entropy"},
            }
        )
    )
    assert with_own_settings(recipe) is recipe


def test_what_does_not_fit_the_kind_is_told_with_it(tiny_model, tiny_mono):
    with pytest.raises(
        InputError, match=r"loss.name: expected a loss of encoder .*of kind encoder"
    ):
        described(tiny_model, "cross-entropy")
    with pytest.raises(InputError, match="segment_row: only for duoBERT models, not mono"):
        described(tiny_mono, segment_row="zero")


def test_a_start_that_says_nothing_is_refused_with_both_remedies(tiny_model, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (bare / name).write_bytes((tiny_model / name).read_bytes())
    with pytest.raises(InputError) as refused:
        described(bare)
    assert "nothing says which settings" in str(refused.value)
    assert refused.value.problems[-1] == (
        "model.preset: missing; name the settings of the trained model here, if its start does "
        "not say them"
    )


def test_a_start_with_layers_or_a_cut_is_refused_unless_the_recipe_says_its_settings(tmp_path):
    from sentence_transformers.base.modules import Dense, Normalize

    peer(tmp_path / "layers", "bert", "mean", Dense(32, 24), Normalize())
    told = "sentence-transformers computes this model, .* name model.preset or model.settings"
    with pytest.raises(InputError, match=rf"model.start: \S+layers: {told}"):
        described(tmp_path / "layers", "info-nce")
    peer(tmp_path / "cut", "bert", "mean", truncate_dim=8)
    cut = described(tmp_path / "cut", "info-nce")
    with pytest.raises(InputError, match="model.settings: truncate_dim: a training cuts no emb"):
        settings_of(cut)
    whole = {k: v for k, v in cut.model.settings.items() if k != "truncate_dim"}
    for start in ("layers", "cut"):
        assert (
            settings_of(described(tmp_path / start, "info-nce", settings=whole)).kind == "encoder"
        )


def test_a_start_whose_queries_have_a_table_is_refused_unless_its_body_is_trained(tmp_path):
    routed = make_routed(tmp_path / "routed")
    told = "model.start: .*routed: .*found those by the table in query_0.*model.preset: splade"
    with pytest.raises(InputError, match=told):
        described(routed, "info-nce")
    own = conventions_of_training(described(routed, "info-nce", preset="splade").model).to_json()
    named = described(routed, "info-nce", settings={**own, "query_table": "t"})
    with pytest.raises(InputError, match="model.settings: query_table: a training encodes queries"):
        conventions_of_training(named.model)


def test_each_phase_without_a_preset_has_those_of_the_start(tiny_mono):
    phases = [{"name": "a"}, {"name": "b", "model": {"query_limit": 7}}]
    body = {**BODY, "model": {"start": str(tiny_mono)}, "loss": {"name": "cross-entropy"}}
    found = with_own_settings(load_training(yaml.safe_dump({**body, "phases": phases})))
    first, second = (conventions_of_training(each.training.model) for each in found.phases)
    assert first.kind == second.kind == "mono" and second.query_limit == 7 != first.query_limit


def test_a_training_without_a_preset_is_the_one_with_a_preset_of_the_same_settings(
    small_recipe, tiny_mono, train, weights, tmp_path
):
    model = {"start": str(tiny_mono), "query_limit": 12, "total_limit": 64}
    short = {"steps": 2, "validate": None, "dev": {"docs": None}, "optimiser": {"warmup": 1}}
    train(small_recipe("preset", model=model, **short), tmp_path / "preset")
    recipe = small_recipe("own", model={**model, "preset": None}, **short)
    trained = train(recipe, tmp_path / "own")
    resolved = load_training(tmp_path / "own" / "recipe.yaml")
    assert resolved.model.preset is None and resolved.model.settings["kind"] == "mono"
    assert with_own_settings(resolved) is resolved
    told = json.loads((trained.model / "raypipe.json").read_text())
    assert (told["kind"], told["query_limit"], told["total_limit"]) == ("mono", 12, 64)
    one, other = weights(tmp_path / "preset"), weights(tmp_path / "own")
    assert all(one[name].equal(other[name]) for name in one)
