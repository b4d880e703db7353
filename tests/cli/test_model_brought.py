"""Models that new users bring: their prompts, what mends a folder, and whether it is trained."""

import json
import shutil

import pytest

import raypipe
from raypipe.errors import InputError

TEXTS = ["run the lease", "a zebra"]
EMPTY = {"query": "", "document": ""}


@pytest.fixture
def saved(tiny_model, tmp_path):
    """A function that makes a folder of a name as sentence-transformers saves it."""

    def make(name, prompts):
        folder = shutil.copytree(tiny_model, tmp_path / name)
        (folder / "raypipe.json").unlink()
        parts = [("", "Transformer"), ("1_Pooling", "Pooling")]
        modules = [{"path": path, "type": f"sentence_transformers.{kind}"} for path, kind in parts]
        (folder / "1_Pooling").mkdir()
        for file, body in (
            ("modules.json", modules),
            ("1_Pooling/config.json", {"pooling_mode": "mean"}),
            ("sentence_bert_config.json", {"max_seq_length": 32}),
            ("config_sentence_transformers.json", {"prompts": prompts}),
        ):
            (folder / file).write_text(json.dumps(body))
        return folder

    return make


@pytest.mark.parametrize(("name", "noted"), [("my-e5", 1), ("my-bge", 1), ("my-gte", 0)])
def test_empty_prompts_that_a_folder_states_are_none_and_noted_where_a_family_has_some(
    name, noted, saved, raypipe_here
):
    folder, plain = saved(name, EMPTY), saved("plain", {})
    shown = raypipe_here("model", "show", folder)
    assert shown.returncode == 0, shown.stderr
    assert (
        'query_prefix       ""  (config_sentence_transformers.json prompts.query)' in shown.stdout
    )
    assert shown.stdout.count("the folder states empty prompts") == noted
    assert raypipe.encode(TEXTS, folder).tobytes() == raypipe.encode(TEXTS, plain).tobytes()


def test_prompts_that_nothing_states_are_asked_for_and_given_in_python(saved, raypipe_here):
    folder, one_side = saved("our-e5", {}), saved("one-e5", {"query": ""})
    for asked in (folder, one_side):
        shown = raypipe_here("model", "show", asked)
        assert shown.returncode == 2 and "or give prompts in Python" in shown.stderr
    with pytest.raises(InputError, match="models of the family e5"):
        raypipe.encode(TEXTS, folder)
    plain = saved("plain", {})
    given = {"query": "run the ", "passage": "a "}
    for side, text in given.items():
        found = raypipe.encode(TEXTS, folder, side=side, prompts=given)
        assert found.tobytes() == raypipe.encode([text + t for t in TEXTS], plain).tobytes()
    run = raypipe.search(["lease"], TEXTS, folder, prompts=given)
    wanted = raypipe.search(["run the lease"], ["a " + t for t in TEXTS], plain)
    assert run.equals(wanted)
    with pytest.raises(InputError, match="prompts: expected text by side"):
        raypipe.encode(TEXTS, folder, prompts={"document": ""})


def test_prompts_reach_rerankers(tiny_mono):
    prompts = {"query": "run ", "passage": "the "}
    found = raypipe.score([("lease", "shard")], model=tiny_mono, prompts=prompts)
    assert found == raypipe.score([("run lease", "the shard")], model=tiny_mono)
    run = {"0": {"0": 1.0}}
    ranked = raypipe.rerank(run, ["lease"], ["shard"], tiny_mono, prompts=prompts)
    assert ranked["score"].to_pylist() == found.tolist()


def test_gte_modernbert_has_its_line(saved, tmp_path, raypipe_here):
    folder = tmp_path / "models--Alibaba-NLP--gte-modernbert-base" / "snapshots" / "abc"
    shutil.copytree(saved("plain", {}), folder)
    shown = raypipe_here("model", "show", folder)
    assert shown.returncode == 0 and "known of Alibaba-NLP/gte-modernbert-base" in shown.stdout


def test_a_folder_without_settings_is_told_a_file_that_mends_it(saved, raypipe_here):
    """Contriever's layout: weights, config.json and a tokenizer."""
    folder = saved("contriever", {})
    (folder / "modules.json").unlink()
    told = raypipe_here("model", "show", folder).stderr
    body = told[told.index("{") : told.index("}") + 1]
    (folder / "raypipe.json").write_text(body.replace("254", "62"))
    assert raypipe_here("model", "show", folder).returncode == 0


def test_a_t5_that_encodes_is_told_what_an_encoder_has(saved, raypipe_here):
    folder = saved("gtr-t5", {})
    config = {"model_type": "t5", "architectures": ["T5EncoderModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modules.json").unlink()
    told = raypipe_here("model", "show", folder).stderr
    assert "an encoder such as GTR has a modules.json" in told


@pytest.mark.parametrize(
    ("model_type", "told"),
    [
        *((packed, "yes") for packed in ("bert", "xlm-roberta", "modernbert")),
        *((other, "no: sentence-transformers computes it") for other in ("mpnet", "t5", "made-up")),
    ],
)
def test_model_show_says_whether_a_model_can_be_trained(model_type, told, saved, raypipe_here):
    folder = saved("plain", {})
    config = json.loads((folder / "config.json").read_text()) | {"model_type": model_type}
    if model_type == "xlm-roberta":
        config |= {"pad_token_id": 1, "type_vocab_size": 1}
    (folder / "config.json").write_text(json.dumps(config))
    if model_type == "xlm-roberta":  # BERT's special tokens by that family's names
        tokenizer = (folder / "tokenizer.json").read_text()
        tokenizer = tokenizer.replace("[CLS]", "<s>").replace("[SEP]", "</s>")
        (folder / "tokenizer.json").write_text(tokenizer)
    shown = raypipe_here("model", "show", folder).stdout
    assert f"\ntraining           {told}" in shown


def test_layers_behind_pooling_are_not_trained(saved, raypipe_here):
    folder = saved("plain", {})
    (folder / "raypipe.json").write_text('{"truncate_dim": 16}')
    shown = raypipe_here("model", "show", folder)
    assert "\ntraining           no: what follows pooling is not trained" in shown.stdout
