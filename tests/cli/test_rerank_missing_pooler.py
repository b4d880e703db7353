"""An adapter over a masked language model, which has no pooler, by the command line.

transformers saves no pooler with a BertForMaskedLM, and peft would draw one at every load.
"""

import json
import shutil

import pytest
import yaml
from killed_jobs import durable_bytes
from poolerless import PAIR, POOLER, made_by_peft, refused
from safetensors.torch import load_file, save_file
from small_training import Recipes, without_queries
from transformers import BertForSequenceClassification

from raypipe.cli.main import run
from raypipe.models.folder.adapters import merge


@pytest.fixture(scope="module")
def carried(base):
    """An adapter that has the pooler which it was trained with."""
    return made_by_peft(base, base.parent / "carried", pooler=True)


def score(inputs, model, out):
    names = {"--run": "run.trec", "--collection": "passages.tsv", "--queries": "queries.tsv"}
    given = [part for option, name in names.items() for part in (option, str(inputs / name))]
    return ["score", *given, "--model", str(model), "--out", str(inputs / out)]


def test_score_refuses_the_adapter_by_the_names_of_what_nobody_has(adapter, inputs, capsys):
    code, _ = run(score(inputs, adapter, "work"))
    told = capsys.readouterr().err
    assert code == 2 and refused(told) and f"{adapter} over " in told
    assert not list((inputs / "work" / "stores").glob("*@*")), "before any work"


def test_score_refuses_the_masked_language_model_itself(base, inputs, capsys):
    whole = shutil.copytree(base, inputs / "whole")
    (whole / "raypipe.json").write_text(json.dumps(PAIR))
    names = ("classifier.bias", "classifier.weight", *POOLER)
    assert run(["model", "show", str(whole)])[0] == 2
    assert f"missing            {', '.join(names)}" in capsys.readouterr().out
    assert run(score(inputs, whole, "work"))[0] == 2
    assert refused(capsys.readouterr().err, names)
    assert not list((inputs / "work" / "stores").glob("*@*")), "before any work"


def test_model_show_names_what_nobody_has_and_exits_2(adapter, carried, capsys):
    assert run(["model", "show", str(adapter)])[0] == 2
    told = capsys.readouterr()
    assert f"missing            {', '.join(POOLER)}" in told.out and refused(told.err)
    assert run(["model", "show", str(carried)])[0] == 0
    assert "missing            none" in capsys.readouterr().out


def test_merge_draws_nothing(base, carried):
    weights = load_file(base / "model.safetensors")
    config = json.loads((base / "config.json").read_text())
    own = load_file(carried / "adapter_model.safetensors")
    merged = [merge(weights, config, carried) for _ in range(2)]
    for name in POOLER:
        assert all((each[name] == own[f"base_model.model.{name}"]).all() for each in merged)
    assert merged[0].keys() == merged[1].keys()
    assert all((merged[0][name] == merged[1][name]).all() for name in merged[0])


def inline(inputs, model):
    """A recipe's path: the given run scored in this process."""
    body = {
        "format": 1,
        "name": "scored",
        "collection": {"format": "msmarco-v1", "input": str(inputs / "passages.tsv")},
        "queries": {"dev": {"file": str(inputs / "queries.tsv")}},
        "models": {"mono": {"path": str(model)}},
        "stages": {
            "given": {"do": "read", "runs": {"dev": str(inputs / "run.trec")}},
            "mono": {"do": "score", "run": "given", "model": "mono"},
        },
        "resources": {"backend": "inline", "device": "cpu"},
    }
    path = inputs / "recipe.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return str(path)


@pytest.mark.parametrize("holder", ["adapter", pytest.param("base", marks=pytest.mark.long)])
def test_a_pooler_that_either_holds_gives_the_same_bytes_twice(
    base, adapter, carried, inputs, holder
):
    model = carried
    if holder == "base":
        model = with_pooler(base, adapter, inputs)
    for out in ("first", "second"):
        assert run(["pipeline", inline(inputs, model), "--out", str(inputs / out)])[0] == 0
    assert_same_bytes(inputs, "mono.dev")


def with_pooler(base, adapter, folder):
    """The adapter over the same base with the pooler of a classifier."""
    whole, own = shutil.copytree(base, folder / "whole"), shutil.copytree(adapter, folder / "own")
    drawn = BertForSequenceClassification.from_pretrained(base).state_dict()
    weights = load_file(base / "model.safetensors")
    save_file({**weights, **{n: drawn[n] for n in POOLER}}, whole / "model.safetensors")
    (own / "raypipe.json").write_text(json.dumps({**PAIR, "base": str(whole)}))
    return own


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
def test_the_score_command_gives_the_same_bytes_twice(carried, inputs, raypipe_cli):
    for out in ("first", "second"):
        done = raypipe_cli(*score(inputs, carried, out))
        assert done.returncode == 0, done.stderr
    assert_same_bytes(inputs, "score.queries")


def assert_same_bytes(inputs, store):
    """Of all stores and of the run files; nothing is shared but the model and the inputs."""
    first, second = (durable_bytes(inputs / out) for out in ("first", "second"))
    assert first == second
    assert any(name.startswith(f"stores/{store}/") for name in first)
    assert any(name.endswith(".trec") for name in first)


def training(folder, model, **changed):
    """The path of a training's recipe over the inputs."""
    for split in ("train", "dev", "test"):
        shutil.copy(folder / "queries.tsv", folder / f"queries.{split}.tsv")
        (folder / f"qrels.{split}.txt").write_text("q1 0 p0 1\nq2 0 p1 1\n")
    return Recipes(folder, model["start"], folder).write(model=model, **changed)


BEGINS = ("from the adapter", "as an adapter", "with an adapter", "whole")


@pytest.mark.parametrize("begins", BEGINS)
def test_a_training_that_starts_there_is_refused_before_any_work(
    base, adapter, inputs, capsys, begins
):
    low_rank = {"rank": 2, "alpha": 8.0}
    model = {
        "from the adapter": {"start": str(adapter)},
        "as an adapter": {"start": str(base), "adapter": {**low_rank, "start": str(adapter)}},
        "with an adapter": {"start": str(base), "adapter": low_rank},
        "whole": {"start": str(base)},
    }[begins]
    code, _ = run(["train", str(training(inputs, model)), "--out", str(inputs / "out")])
    assert code == 2 and refused(capsys.readouterr().err)
    assert not list((inputs / "out" / "stores").glob("*@*"))


def test_a_pretraining_of_next_sentences_that_starts_there_is_refused(base, inputs, capsys):
    model = {"start": str(base), "preset": "bert", "query_limit": None}
    masking = {"next_sentence": True, "held_out": 0}
    loss = {"name": "masked-language-model"}
    path = training(inputs, model, loss=loss, masking=masking, validate=None)
    assert run(["train", str(without_queries(path)), "--out", str(inputs / "out")])[0] == 2
    names = (*POOLER, "cls.seq_relationship.weight", "cls.seq_relationship.bias")
    assert refused(capsys.readouterr().err, names)
