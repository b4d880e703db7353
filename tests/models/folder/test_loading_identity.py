"""What decides a row is in a model's identity; what is loaded is what was identified."""

import json
import shutil

import pytest

from raypipe.errors import InputError
from raypipe.models.bert.files import DECISIVE
from raypipe.models.bert.forward import read_bert
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import load_weights, resolve_model
from raypipe.models.load import load_scorer
from raypipe.training.start import starting_tensors


@pytest.fixture
def folder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "m")


def change(folder, **fields):
    path = folder / "config.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, **fields}))


class Noting(dict):
    """A mapping that notes what is asked of it."""

    def __init__(self, body):
        super().__init__(body)
        self.asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)


def test_every_value_that_a_forward_or_a_training_reads_is_in_the_fingerprint(tiny_mono):
    model = resolve_model(str(tiny_mono))
    config = Noting(model.config())
    weights = {n: t for n, t in load_weights(model).items() if "classifier" not in n}
    read_bert({name.removeprefix("bert."): t for name, t in weights.items()}, config)
    starting_tensors(weights, config, model.reranker, num_units=2, seed=0)
    assert {"num_attention_heads", "initializer_range"} <= config.asked
    assert config.asked - {"initializer_range"} <= set(DECISIVE)
    assert set(model.forward_config()) == set(DECISIVE)


def test_other_heads_are_another_identity_and_a_dropout_rate_is_none(folder):
    before = resolve_model(str(folder)).forward_config()
    change(folder, num_attention_heads=1, layer_norm_eps=1e-5)
    after = resolve_model(str(folder)).forward_config()
    assert after == {**before, "num_attention_heads": 1, "layer_norm_eps": 1e-5}
    change(folder, hidden_dropout_prob=0.9, transformers_version="0", dtype="float64")
    assert resolve_model(str(folder)).forward_config() == after


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"num_hidden_layers": 1},
            [*["encoder.layer.1."] * 5, "and 11 more tensors"],
        ),
        (
            {"num_hidden_layers": 3},
            [*["the checkpoint lacks the tensor encoder.layer.2."] * 5, "and 11 more tensors"],
        ),
        (
            {"vocab_size": 9},
            ["embeddings.word_embeddings.weight: expected shape [9, 32] from config.json, found ["],
        ),
        (
            {"max_position_embeddings": 512, "type_vocab_size": 3},
            ["position_embeddings.weight: expected shape [512, 32] from", "token_type_embeddings."],
        ),
        ({"num_attention_heads": 5}, ["num_attention_heads: expected a divisor of hidden_size 32"]),
        ({"num_hidden_layers": 10**9}, ["num_hidden_layers: expected a count of 1,000 at most"]),
        ({"hidden_size": None}, ["hidden_size: expected a count, found None"]),
        ({"num_attention_heads": True}, ["num_attention_heads: expected a count, found True"]),
        ({"layer_norm_eps": "1e-12"}, ["layer_norm_eps: expected a number"]),
        ({"hidden_act": "none"}, ["sentence-transformers cannot open it as SentenceTransformer: "]),
        ({"position_embedding_type": "relative_key"}, ["position_embedding_type: expected"]),
        ({"model_type": "none"}, ["sentence-transformers cannot open it as SentenceTransformer: "]),
        ({"initializer_range": "wide"}, ["initializer_range: expected a number"]),
    ],
)
def test_a_config_that_is_of_no_model_or_of_another_is_refused_whole(folder, fields, told):
    change(folder, **fields)
    with pytest.raises(InputError) as caught:
        resolve_model(str(folder))
    assert len(caught.value.problems) == len(told), caught.value.problems
    for problem, words in zip(caught.value.problems, told, strict=True):
        assert str(folder) in problem and words in problem
    assert describe(str(folder), None).problems


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "expected JSON"),
        (b"\xff\xfe", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b"[1, 2]", "expected a JSON object, found list"),
        (b"{}", "hidden_size: expected a count, found None"),
        (None, "config.json: expected a JSON file, found a folder"),
    ],
)
def test_a_config_that_is_no_config_is_an_input_error(folder, data, told):
    (folder / "config.json").unlink()
    if data is None:
        (folder / "config.json").mkdir()
    else:
        (folder / "config.json").write_bytes(data)
    with pytest.raises(InputError, match="config.json") as caught:
        resolve_model(str(folder))
    assert any(told in problem for problem in caught.value.problems)
    assert describe(str(folder), None).problems


def test_what_is_wrong_with_config_tokenizer_and_conventions_is_told_at_once(folder):
    change(folder, num_hidden_layers=1)
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "raypipe.json").unlink()
    with pytest.raises(InputError) as caught:
        resolve_model(str(folder))
    text = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 2 + 6
    assert all(w in text for w in ("nothing says", "no such tensor", "tokenizer.json: expected"))


def test_a_tokenizer_that_is_a_folder_is_an_input_error(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()
    with pytest.raises(InputError, match=r"tokenizer\.json: expected"):
        resolve_model(str(folder))


def test_a_duos_third_row_may_stand_in_the_checkpoint_alone(tiny_duo, tmp_path):
    folder = shutil.copytree(tiny_duo, tmp_path / "duo")
    change(folder, type_vocab_size=2)
    assert len(load_scorer(resolve_model(str(folder)))._forward._body.segments) == 3


def test_a_config_without_a_word_on_positions_is_that_of_absolute_ones(folder):
    stated = json.loads((folder / "config.json").read_text())
    assert "position_embedding_type" not in stated
    before = resolve_model(str(folder)).forward_config()
    change(folder, position_embedding_type="absolute")
    assert resolve_model(str(folder)).forward_config() == before
