"""Every name of `raypipe reproduce` from its first step to its table, with tiny models.

The data are made up, so the values say nothing. Each step runs on what the others left, and every
value that a step should measure is there.
"""

import json

import pytest
from made_up_papers import FAST, LIMITS, TINY, write_papers
from masked_texts import make_pretrained

from raypipe.cli.main import run
from raypipe.config.load import recipe_text, verb_of
from raypipe.report.published import reproduction

pytestmark = [pytest.mark.long, pytest.mark.jvm, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    return write_papers(tmp_path_factory.mktemp("made-up") / "data")


@pytest.fixture(scope="module")
def pretrained(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start") / "pretrained"
    make_pretrained(tiny, folder)
    return folder


def at(step, settings):
    return [f"{step}:{setting}" for setting in settings]


def reproduced(name, data, out, settings, capsys, only=()):
    """The section of a complete reproduction, the same when it is repeated."""
    command = ["reproduce", name, *TINY, *settings, "--data", str(data), "--out", str(out)]
    command += [word for step in only for word in ("--only", step)] + ["--json"]
    found = []
    for _ in range(2):
        code, reason = run(command)
        told = capsys.readouterr()
        assert code in (0, 5), (reason, told.err[-3000:])
        found.append(json.loads(told.out))
        assert (code == 5) == (counts(found[-1])["fail"] > 0)
    assert found[0] == found[1]
    for step in reproduction(name).steps:
        chosen = not only or step.called in only
        trains = verb_of(recipe_text(step.recipe)) == "train"
        if chosen and not trains:
            summary = json.loads((out / step.folder / "summary.json").read_bytes())
            assert all(stage["reused"] for stage in summary["stages"].values())
    return found[0]


def counts(section):
    return dict(next(t["rows"] for t in section["tables"] if t["title"] == "Results"))


def results(section):
    """(table, row, column) -> result, of the rows that a step measures."""
    return {
        (table["title"], row[0], row[1]): row[7]
        for table in section["tables"]
        if "tolerance" in table["columns"]
        for row in table["rows"]
        if row[8] is not None
    }


def test_bm25(made_up, tmp_path, capsys):
    only = ("msmarco-bm25", "car-bm25")
    section = reproduced("bm25", made_up, tmp_path, [], capsys, only)
    found = results(section)
    assert sum(result in ("pass", "fail") for result in found.values()) == 12
    assert {r for (table, *_), r in found.items() if "dl21" in table} == {"not run"}


def test_repbert(made_up, tiny_model, tiny_mono, tmp_path, capsys):
    settings = [
        *at("repbert-reranked", [f'models.repbert={{"path": "{tiny_model}"}}']),
        *at("repbert-reranked", [f'models.mono={{"path": "{tiny_mono}"}}']),
        *at("repbert-fused", [f'models.repbert={{"path": "{tiny_model}"}}']),
    ]
    section = reproduced("repbert", made_up, tmp_path, settings, capsys)
    found = results(section)
    assert len(found) == 12 + 25 + 25 + 25 + 1
    assert list(found.values()).count("not printed") == 2
    assert list(found.values()).count("not compared") == 2
    assert set(found.values()) <= {"pass", "fail", "not printed", "not compared"}


def test_duobert(made_up, tiny_model, tmp_path, capsys):
    tiny = [f"model.start={tiny_model}", *LIMITS, *FAST]
    settings = [
        *at("monobert-2019b", tiny),
        *at("duobert-2019", [*tiny, "model.passage_limit=20"]),
        *at("duobert-multistage", ["stages.mono.k0=8", "stages.duo.k1=5"]),
    ]
    section = reproduced("duobert", made_up, tmp_path, settings, capsys)
    assert len(results(section)) == 7 and set(results(section).values()) <= {"pass", "fail"}


def test_multistage(made_up, pretrained, tmp_path, capsys):
    settings = [
        f"msmarco-multistage-tcp:phases.0.model.start={pretrained}",
        *at("msmarco-multistage-tcp", ["phases.0.model.total_limit=32", *FAST[:1], *FAST[2:]]),
        *at("msmarco-multistage-tcp", [f"phases.{n}.batch=4" for n in range(3)]),
        *at("msmarco-multistage-tcp", ["phases.0.masking.held_out=6", "phases.0.validate.every=2"]),
        *at("msmarco-multistage-tcp", [f"phases.1.{setting}" for setting in LIMITS]),
        *at("msmarco-multistage-tcp", [f"phases.2.{setting}" for setting in LIMITS]),
        "msmarco-multistage-tcp:phases.2.model.passage_limit=20",
        *at("multistage-tcp", ["stages.mono.k0=8", "stages.duo.k1=5"]),
    ]
    section = reproduced("multistage", made_up, tmp_path, settings, capsys)
    assert len(results(section)) == 3 and set(results(section).values()) <= {"pass", "fail"}


def test_car(made_up, tiny_model, tiny_mono, tmp_path, capsys):
    tiny = [f"model.start={tiny_model}", *LIMITS, *FAST]
    settings = [
        f'car-monobert:models.mono-model={{"path": "{tiny_mono}"}}',
        *at("car-mono", [*tiny, "validate.every=2"]),
        *at("car-duo", [*tiny, "model.passage_limit=20"]),
        *at("car-multistage", ["stages.mono.k0=8", "stages.duo.k1=5"]),
    ]
    section = reproduced("car", made_up, tmp_path, settings, capsys)
    assert len(results(section)) == 9 and set(results(section).values()) <= {"pass", "fail"}


def test_cip(made_up, tiny_model, tmp_path, capsys):
    settings = [
        f"cip-runs:model.start={tiny_model}",
        *at("cip-runs", [*LIMITS, "batch=4", "optimiser.warmup=1", "resources.precision=fp32"]),
        *at("cip-runs", [f"phases.{n}.validate.every=2" for n in range(5)]),
        *at("cip-runs", ["phases.3.train.passages.negatives.first=2"]),
    ]
    section = reproduced("cip", made_up, tmp_path, settings, capsys)
    assert len(results(section)) == 18 and set(results(section).values()) <= {"pass", "fail"}


def test_bm25_is_within_its_tolerances_on_three_collections(
    raypipe_data, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RAYPIPE_DATA", str(raypipe_data))
    steps = ("nfcorpus", "dl21-first-stages", "car-test200")
    only = [word for step in steps for word in ("--only", step)]
    command = ["reproduce", "bm25", "--out", str(tmp_path), *only, "resources.backend=inline"]
    code, reason = run([*command, "--json"])
    assert code == 0, reason
    section = json.loads(capsys.readouterr().out)
    assert section["tables"][-1]["title"] == "Results"
    assert dict(section["tables"][-1]["rows"])["pass"] == 29
    assert "nfcorpus: test: 323 topics" in section["notes"]
    assert "car-test200: hierarchical: 1,860 topics" in section["notes"]
    assert "dl21-first-stages: dl21: 53 topics" in section["notes"]
    summary = json.loads((tmp_path / "nfcorpus" / "summary.json").read_bytes())
    assert list(summary["systems"]["test"]) == ["bm25"]
