"""A training that starts from a model without a pooler, by the command line."""

import shutil

import pytest
from poolerless import POOLER, refused
from small_training import Recipes, without_queries

from raypipe.cli.main import run


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
