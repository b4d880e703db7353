"""Conventions read from folders as sentence-transformers and transformers write them."""

import checkpoints as made
import pytest
from json_files import write
from tokenizers import BertWordPieceTokenizer

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover
from raypipe.models.folder.model_folder import packaged_folder
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.settings import PRESETS, Conventions, PairConventions

OLD_MODULES = ["Transformer", "Pooling", "Normalize"]
MEAN = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}


def base(folder, **config):
    made.write_vocabulary(folder)
    made.write_config(folder, **made.SIZES, type_vocab_size=2, model_type="bert", **config)
    BertWordPieceTokenizer(str(folder / "vocab.txt")).save(str(folder / "tokenizer.json"))
    return folder


def sentence(folder, *, modules=OLD_MODULES, pooling=MEAN, settings=None, prompts=None):
    """As releases before 6 save it: dotted names under sentence_transformers.models."""
    base(folder, architectures=["BertModel"])
    places = ["", *(f"{number}_{name}" for number, name in enumerate(modules) if number)]
    prefix = "sentence_transformers.models."
    listed = [
        {"idx": number, "name": str(number), "path": place, "type": prefix + name}
        for number, (name, place) in enumerate(zip(modules, places, strict=True))
    ]
    write(folder / "modules.json", listed)
    write(folder / "1_Pooling" / "config.json", pooling)
    settings = {"max_seq_length": 128, "do_lower_case": False} if settings is None else settings
    write(folder / "sentence_bert_config.json", settings)
    write(folder / "config_sentence_transformers.json", prompts or {})
    return folder


def cross(folder, *, units=1, **fields):
    labels = {str(unit): f"LABEL_{unit}" for unit in range(units)}
    names = ["BertForSequenceClassification"]
    base(folder, architectures=names, id2label=labels, **fields)
    write(folder / "tokenizer_config.json", {"model_max_length": 256})
    return folder


def test_the_packaged_models_own_files_say_what_its_preset_says():
    found = discover(ModelFiles(packaged_folder()), None).conventions
    assert found.to_json() == PRESETS["minilm"].to_json()


def test_a_sentence_transformer_says_all_its_conventions_and_where(tmp_path):
    found = discover(ModelFiles(sentence(tmp_path / "m")), None)
    assert found.conventions == Conventions(
        pooling="mean",
        normalise=True,
        query_segment=0,
        passage_segment=0,
        query_limit=126,
        passage_limit=126,
    )
    assert found.sources["pooling"] == "1_Pooling/config.json"
    assert found.sources["query_limit"].startswith("sentence_bert_config.json max_seq_length")
    assert set(found.sources) == {
        *found.conventions.to_json(), "start_weights_saw", "query_table",
    }  # fmt: skip


def test_release_6_writes_other_names_and_is_read_as_well(tmp_path):
    folder = sentence(tmp_path / "m", settings={"transformer_task": "feature-extraction"})
    types = [
        "sentence_transformers.base.modules.transformer.Transformer",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    ]
    listed = [{"idx": i, "path": ["", "1_Pooling"][i], "type": t} for i, t in enumerate(types)]
    write(folder / "modules.json", listed)
    pooling = {"embedding_dimension": 32, "pooling_mode": "cls", "include_prompt": True}
    write(folder / "1_Pooling" / "config.json", pooling)
    write(folder / "tokenizer_config.json", {"model_max_length": 30})
    prompts = {"query": "query: ", "document": "passage: "}
    body = {"prompts": prompts, "similarity_fn_name": "cosine"}
    write(folder / "config_sentence_transformers.json", body)
    found = discover(ModelFiles(folder), None)
    conventions = found.conventions
    assert (conventions.pooling, conventions.normalise) == ("cls", False)
    assert (conventions.query_limit, conventions.passage_limit) == (28, 28)
    assert (conventions.query_prefix, conventions.passage_prefix) == ("query: ", "passage: ")
    assert "similarity_fn_name cosine" in found.notes[0]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"modules": ["Transformer", "Pooling", "LayerNorm"]},
            "are Transformer, Pooling, LayerNorm: ",
        ),
        (
            {"modules": ["Transformer", "Dense", "Pooling"]},
            "are Transformer, Dense, Pooling: ",
        ),
        ({"modules": ["Pooling", "Transformer"]}, "its modules are Pooling, Transformer: "),
        ({"pooling": {"pooling_mode_weightedmean_tokens": True}}, "its pooling is weightedmean: "),
        ({"pooling": {**MEAN, "pooling_mode_cls_token": True}}, "its pooling is mean and cls: "),
        ({"pooling": {}}, "its pooling is not stated: "),
        (
            {"prompts": {"similarity_fn_name": "euclidean"}},
            "its similarity is euclidean: sentence-tr",
        ),
    ],
)
def test_what_raypipe_does_not_compute_or_must_not_guess_is_refused_by_name(
    tmp_path, changed, told
):
    with pytest.raises(InputError, match=told):
        discover(ModelFiles(sentence(tmp_path / "m", **changed)), None)


def test_raypipe_json_settles_what_the_files_leave_open_and_wins_over_them(tmp_path):
    prompts = {"prompts": {"s2p": "x"}, "default_prompt_name": "s2p"}
    folder = sentence(tmp_path / "m", prompts=prompts)
    given = {"query_prefix": "x", "passage_prefix": "", "normalise": False}
    write(folder / "raypipe.json", given)
    found = discover(ModelFiles(folder), None)
    assert found.conventions.query_prefix == "x" and not found.conventions.normalise
    assert found.sources["query_prefix"] == found.sources["normalise"] == "raypipe.json"
    write(folder / "raypipe.json", {**given, "poolign": "mean"})
    with pytest.raises(InputError, match=r"raypipe\.json: poolign: did you mean pooling\?"):
        discover(ModelFiles(folder), None)


@pytest.mark.parametrize(
    ("fields", "score"),
    [
        ({}, "probability"),
        (
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
            "raw",
        ),
        (
            {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"},
            "probability",
        ),
    ],
)
def test_a_cross_encoder_of_one_unit_says_all_its_conventions(tmp_path, fields, score):
    assert discover(
        ModelFiles(cross(tmp_path / "m", **fields)), None
    ).conventions == PairConventions(
        kind="mono",
        query_limit=None,
        passage_limit=None,
        total_limit=256,
        relevant_label=None,
        score=score,
    )


def test_a_cross_encoder_saved_by_release_6_has_a_modules_json_of_its_own(tmp_path):
    folder = cross(tmp_path / "m")
    kind = "sentence_transformers.base.modules.transformer.Transformer"
    write(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": kind}])
    told = {"activation_fn": "torch.nn.modules.activation.Sigmoid", "prompts": {}}
    write(folder / "config_sentence_transformers.json", told)
    found = discover(ModelFiles(folder), None)
    assert (found.conventions.kind, found.conventions.score) == ("mono", "probability")
    assert found.sources["score"] == "config_sentence_transformers.json activation_fn"


def test_two_units_do_not_say_which_means_relevant(tmp_path):
    folder = cross(tmp_path / "m", units=2)
    with pytest.raises(InputError) as told:
        discover(ModelFiles(folder), None)
    assert [problem.split(": ")[1] for problem in told.value.problems] == [
        "relevant_label",
        "score",
    ]
    assert "monobert" in told.value.problems[0]
    assert "monot5" not in told.value.problems[0], "a BERT reads no prompt"
    write(folder / "raypipe.json", {"relevant_label": 1, "score": "log-probability"})
    assert discover(ModelFiles(folder), None).conventions.relevant_label == 1
    assert discover(ModelFiles(folder), "monobert").sources["score"] == "preset monobert"


@pytest.mark.parametrize(
    ("units", "fields", "told"),
    [
        (3, {}, "its head has 3 units: sentence-transformers"),
        (1, {"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}, "Identity or Sigmoid"),
    ],
)
def test_other_heads_are_refused(tmp_path, units, fields, told):
    with pytest.raises(InputError, match=told):
        discover(ModelFiles(cross(tmp_path / "m", units=units, **fields)), None)


def test_a_longest_input_beyond_the_positions_is_cut_to_them(tmp_path):
    folder = cross(tmp_path / "m")
    write(folder / "tokenizer_config.json", {"model_max_length": 10**30})
    found = discover(ModelFiles(folder), None)
    assert found.conventions.total_limit == 512
    assert "max_position_embeddings" in found.sources["total_limit"]


def test_a_folder_that_says_nothing_is_an_error(tmp_path):
    with pytest.raises(InputError, match="nothing says"):
        discover(ModelFiles(base(tmp_path / "m", architectures=["BertModel"])), None)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, {"preset": "unicoil"}),
        ({}, {"preset": None, "settings": {"pooling": "unicoil"}}),
        ({"architectures": ["UniCoilEncoder"]}, {"preset": None}),
        ({"architectures": ["UniCoilEncoder"]}, {"preset": "splade"}),
    ],
)
def test_a_unicoil_model_is_refused_and_splade_named(tmp_path, given, named):
    told = "m: uniCOIL is not supported; of sparse models SPLADE is, with the preset splade"
    with pytest.raises(InputError, match=told):
        discover(ModelFiles(base(tmp_path / "m", **given)), **named)
