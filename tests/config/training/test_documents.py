"""What a training recipe says of sets of documents."""

from pathlib import Path

import pytest
import yaml
from training_text import RECIPE

from raypipe.config import load_training
from raypipe.errors import InputError


def pages(*overrides):
    """The recipe whose second phase is over documents."""
    body = yaml.safe_load(RECIPE)
    split = {"format": "msmarco-doc-v2", "input": "docs.jsonl", "split": {}}
    body["collections"]["pages"] = split
    of = {"collection": "pages", "queries": "q.tsv", "qrels": "qrels.txt"}
    documents = {"best": 5, "scored_by": "first"}
    train = {**of, "negatives": {"runs": "run.trec"}, "documents": documents}
    dev = {**of, "run": "run.trec", "documents": {"method": "maxp"}}
    second = {"name": "second", "train": {"pages": train}, "dev": {"pages": dev}}
    body["phases"] = [{"name": "first"}, second]
    return load_training(yaml.safe_dump(body), overrides=overrides, base=Path("/r"))


def test_a_phase_over_documents_is_taken():
    found = pages().phases[1].training
    assert found.train["pages"].documents.passages == 32
    assert found.dev["pages"].documents.method == "maxp"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["phases.1.train.pages.documents.scored_by=second"], "train.pages.documents.scored_by"),
        (["phases.1.train.pages.documents.scored_by="], "train.pages.documents.scored_by"),
        (["phases.1.train.pages.documents.best="], "train.pages.documents.scored_by"),
        (["phases.1.train.pages.teacher=t"], "train.pages.teacher"),
        (["phases.1.train.pages.collection=docs"], "train.pages.documents"),
        (["phases.1.dev.pages.collection=docs"], "dev.pages.documents"),
        (["phases.1.dev.pages.documents.k=4"], "dev.pages.documents.k"),
        (["phases.1.model={preset: duobert}"], "dev.pages.documents"),
        (["phases.1.train.pages.negatives=", "phases.1.train.pages.triples=t"],
         "train.pages.documents"),
    ],
)  # fmt: skip
def test_a_broken_rule_about_documents_is_told(overrides, key):
    with pytest.raises(InputError) as caught:
        pages(*overrides)
    (problem,) = caught.value.problems
    assert f": phases.1.{key}: " in problem
