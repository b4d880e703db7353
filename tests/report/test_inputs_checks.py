"""Wrong inputs of trainings and pipelines are told before any step runs."""

import pytest
from made_up_msmarco import write_msmarco
from made_up_papers import LIMITS, TINY, write_training

from raypipe.report.inputs import wanted, wrong_inputs
from raypipe.report.published import plan, reproduction, variables


@pytest.fixture
def data(tmp_path):
    write_msmarco(tmp_path / "msmarco")
    write_training(tmp_path / "msmarco")
    return tmp_path


def problems(name, data, settings):
    of, out = reproduction(name), data / "out"
    planned = plan(of, out, data=data, settings=settings)
    return wrong_inputs(planned, wanted(of, out, planned, variables({}, data)))


@pytest.fixture
def settings(tiny_model):
    """Of the trainings of duobert."""
    of_training = [f"model.start={tiny_model}", *LIMITS]
    steps = ("monobert-2019b", "duobert-2019")
    found = TINY + [f"{step}:{setting}" for step in steps for setting in of_training]
    return [*found, "duobert-2019:model.passage_limit=20"]


def test_good_inputs_have_no_problem_though_later_models_are_not_there_yet(data, settings):
    assert problems("duobert", data, settings) == []


def test_each_bad_input_of_every_step_is_told_once_for_a_step(data, settings):
    msmarco = data / "msmarco"
    (msmarco / "qidpidtriples.train.full.2.tsv.gz").write_bytes(b"1\t2\n")
    (msmarco / "triples.train.small.tsv").write_text("a\tb\tc\td\n")
    (msmarco / "queries.eval.small.tsv").write_text("")
    (msmarco / "collection.tsv").write_text("no tab\n")
    found = problems("duobert", data, settings)
    assert len(found) == len(set(found))
    told = "\n".join(found)
    assert f"monobert-2019b: {msmarco}/collection.tsv: line 1: " in told
    assert f"duobert-multistage: {msmarco}/collection.tsv: line 1: " in told
    assert f"duobert-2019: {msmarco}/triples.train.small.tsv: line 1: expected three" in told
    for step in ("monobert-2019b", "duobert-2019", "duobert-multistage"):
        assert f"{step}: {msmarco}/queries.eval.small.tsv: no queries" in told
    assert any(line.startswith("monobert-2019b: ") and "qidpidtriples" in line for line in found)


def test_a_start_of_another_size_is_refused(data, tiny, settings):
    tiny.make_tiny_bert(data / "models" / "bert-large-uncased")
    kept = [each for each in settings if "model.start" not in each]
    found = problems("duobert", data, kept)
    assert len(found) == 2
    assert all("expected BERT Large, uncased" in line for line in found)
    assert all("24 layers of 1024, found 2 of 32" in line for line in found)


def test_inputs_in_a_bucket_are_left_to_the_recipe(data, settings):
    given = ["queries.dev.file=s3://bucket/q.tsv", "collection.input=s3://bucket/c.tsv"]
    assert problems("monobert", data, [*given, 'models.mono-model={"path": "minilm-mono"}']) == []
