"""Wrong inputs of trainings and pipelines are told before any step runs."""

from pathlib import Path

import pytest
from made_up_msmarco import write_msmarco
from made_up_papers import LIMITS, TINY, write_training

from raypipe.report.inputs import missing, wanted, wrong_inputs
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


def test_a_reranker_in_the_place_of_an_encoder_is_refused(data, tiny_model, tiny_mono):
    def told(encoder):
        models = {"repbert": encoder, "mono": tiny_mono}
        settings = [
            f'repbert-reranked:models.{name}={{"path": "{path}"}}' for name, path in models.items()
        ]
        return [line for line in problems("repbert", data, settings) if "expected a model" in line]

    assert told(tiny_model) == []
    assert told(tiny_mono) == [
        f"repbert-reranked: {tiny_mono}: expected a model of kind encoder, found kind mono; name "
        "the right folder"
    ]


def test_inputs_in_a_bucket_are_left_to_the_recipe(data, settings):
    given = ["queries.dev.file=s3://bucket/q.tsv", "collection.input=s3://bucket/c.tsv"]
    assert problems("monobert", data, [*given, 'models.mono-model={"path": "minilm-mono"}']) == []


def wants(name, data, out, only=()):
    of = reproduction(name)
    return wanted(of, out, plan(of, out, data=data, only=only), variables({}, data))


def test_what_an_earlier_step_makes_is_not_wanted(tmp_path):
    found = {each.path: each for each in wants("duobert", tmp_path, tmp_path / "out")}
    assert not any(path.startswith(str(tmp_path / "out")) for path in found)
    collection = found[f"{tmp_path}/msmarco/collection.tsv"]
    assert collection.steps == ("monobert-2019b", "duobert-multistage")
    assert collection.what == "the 8,841,823 passages of MS MARCO v1, id TAB text"
    start = found[f"{tmp_path}/models/bert-large-uncased"]
    assert start.steps == ("monobert-2019b", "duobert-2019")
    assert (start.described.layers, start.described.hidden) == (24, 1024)


def test_what_a_step_that_is_left_out_makes_is_wanted_and_says_so(tmp_path):
    out = tmp_path / "out"
    found = wants("duobert", tmp_path, out, only=["duobert-multistage"])
    (line,) = [line for line in missing(found, []) if "models/duobert-2019:" in line]
    made = "what the step duobert-2019 makes; run it too (for duobert-multistage)"
    assert line == f"missing: {out}/duobert-2019/models/duobert-2019: {made}"


def test_all_that_is_missing_is_told_and_what_is_there_is_not(tmp_path):
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "msmarco" / "collection.tsv").write_text("1\ta\n")
    lines = missing(wants("monobert", tmp_path, tmp_path / "out"), [])
    assert [line.split(": ")[1].removeprefix(f"{tmp_path}/") for line in lines] == [
        "msmarco/queries.dev.small.tsv",
        "msmarco/qrels.dev.small.tsv",
        "models/monobert-large",
        "msmarco/top1000.dev.tsv",
    ]
    assert all("; from " in line and "(for msmarco-monobert)" in line for line in lines)


def test_a_step_that_has_all_it_reads_is_named(tmp_path):
    for name in ("collection.tsv", "queries.dev.small.tsv", "qrels.dev.small.tsv"):
        path = tmp_path / "msmarco" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    told = missing(wants("repbert", tmp_path, Path("/out")), [])
    assert told[-1] == (
        "the other steps have all that they read: to run them alone, --only msmarco-bm25"
    )
    assert missing(wants("bm25", tmp_path, Path("/out"), only=["msmarco-bm25"]), []) == []
