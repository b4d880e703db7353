"""monoT5 and duoT5 by the command line: scored from a run, aggregated, and refused before work."""

import json
from itertools import permutations

import numpy as np
import pytest
import torch
import yaml
from tiny_t5 import DUO, make_tiny_t5
from tokenizers import Tokenizer
from transformers import AutoModelForSeq2SeqLM

from raypipe.cli.main import run

PASSAGES = {"p0": "the zebra", "p1": "a lease", "p2": "of shards"}
QUERIES = {"q1": "a zebra", "q2": "the lease"}
MONO_PROMPT = "Query: {} Document: {} Relevant:"
DUO_PROMPT = "Query: {} Document0: {} Document1: {} Relevant:"


@pytest.fixture
def models(inputs):
    make_tiny_t5(inputs / "mono")
    make_tiny_t5(inputs / "duo", version="1.1", seed=1, **DUO)
    return inputs


@torch.inference_mode()
def expected(folder, prompt, *texts):
    """p(true) by transformers' own forward pass."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = torch.tensor([tokenizer.encode(prompt.format(*texts)).ids])
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    logits = model(input_ids=ids, decoder_input_ids=torch.zeros(1, 1, dtype=torch.long)).logits
    words = [tokenizer.token_to_id(f"\u2581{word}") for word in ("false", "true")]
    return float(torch.softmax(logits[0, 0, words].double(), 0)[1])


def mono_scores(folder):
    return {
        (q, p): np.log(expected(folder / "mono", MONO_PROMPT, query, passage))
        for q, query in QUERIES.items()
        for p, passage in PASSAGES.items()
    }


def duo_scores(folder):
    """The sum over j of p(i, j), by query and passage."""
    found = dict.fromkeys([(q, p) for q in QUERIES for p in PASSAGES], 0.0)
    for q, query in QUERIES.items():
        for first, second in permutations(PASSAGES, 2):
            texts = (query, PASSAGES[first], PASSAGES[second])
            found[q, first] += expected(folder / "duo", DUO_PROMPT, *texts)
    return found


def check(path, wanted):
    """A run's lines are those of these scores, best first."""
    lines = [line.split() for line in path.read_text().splitlines()]
    assert len(lines) == len(wanted)
    for query in QUERIES:
        own = [(line[2], float(line[4])) for line in lines if line[0] == query]
        best = sorted(PASSAGES, key=lambda passage: -wanted[query, passage])
        assert [passage for passage, _ in own] == best
        for passage, score in own:
            assert score == pytest.approx(wanted[query, passage], abs=2e-5)


def recipe_of(folder, **stages):
    body = {
        "format": 1,
        "name": "prompts",
        "collection": {"format": "msmarco-v1", "input": str(folder / "passages.tsv")},
        "queries": {"dev": {"file": str(folder / "queries.tsv")}},
        "models": {name: {"path": str(folder / name)} for name in ("mono", "duo")},
        "stages": {
            "given": {"do": "read", "runs": {"dev": str(folder / "run.trec")}},
            "one": {"do": "score", "run": "given", "model": "mono", "k0": 3},
            "two": {"do": "score", "run": "one", "model": "duo", "k1": 3},
            "sum": {"do": "aggregate", "pairs": "two", "method": "sum"},
            **stages,
        },
        "resources": {"backend": "inline", "device": "cpu"},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return str(path)


@pytest.mark.slow
def test_a_pipeline_of_both_has_the_scores_of_transformers(models):
    out = models / "work"
    assert run(["pipeline", recipe_of(models), "--out", str(out)])[0] == 0
    check(out / "runs" / "dev" / "one.trec", mono_scores(models))
    check(out / "runs" / "dev" / "sum.trec", duo_scores(models))
    (record,) = (out / "stores").glob("scores@one.dev/*/manifest.json")
    assert "sentence-transformers " in record.read_text()
    assert run(["verify", str(out)])[0] == 0


def test_a_prompts_words_are_in_the_fingerprint(models, capsys):
    work = str(models / "work")
    assert run(["pipeline", recipe_of(models), "--out", work])[0] == 0
    body = json.loads((models / "mono" / "raypipe.json").read_text())
    (models / "mono" / "raypipe.json").write_text(json.dumps(body | {"answers": ["no", "yes"]}))
    code, reason = run(["pipeline", recipe_of(models), "--out", work, "--frozen"])
    assert code == 4 and "no key of the recipe changed" in reason
    assert 'answers ["false","true"] -> ["no","yes"]' in capsys.readouterr().err


def test_a_model_that_cannot_answer_is_refused_before_any_work(models, capsys):
    body = json.loads((models / "mono" / "raypipe.json").read_text())
    body |= {"answers": ["zebras", "true"]}
    (models / "mono" / "raypipe.json").write_text(json.dumps(body))
    (models / "duo" / "raypipe.json").unlink()
    assert run(["pipeline", recipe_of(models), "--out", str(models / "work")])[0] == 2
    told = capsys.readouterr().err
    assert "models.mono: " in told and "found 'zebras' as" in told
    assert "models.duo: " in told and "name the preset monot5 or duot5" in told
    assert not (models / "work" / "stores").exists()


@pytest.mark.parametrize(
    ("model", "key", "needed", "told"),
    [
        ("duo", "k0", "mono", "write k1 in the place of k0"),
        ("mono", "k1", "duo", "write k0 in the place of k1"),
    ],
)
def test_a_stage_of_the_other_kind_is_refused_with_the_key_to_write(
    models, model, key, needed, told
):
    stages = {"one": {"do": "score", "run": "given", "model": model, key: 3}}
    if key == "k1":
        stages |= {"two": {"do": "score", "run": "given", "model": "duo", "k1": 3}}
    code, reason = run(["pipeline", recipe_of(models, **stages), "--out", str(models / "work")])
    told = f"{model} is of kind {model}, and the stage needs a model of kind {needed}; {told}"
    assert code == 2 and f"stages.one: {told}" in reason


def test_model_show_prints_the_prompt_and_its_answers(models, capsys):
    assert run(["model", "show", str(models / "mono")])[0] == 0
    told = capsys.readouterr().out
    assert "Query: {query} Document: {passage} Relevant:" in told and "true" in told


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
def test_the_score_and_aggregate_commands_have_the_scores_of_transformers(models, raypipe_cli):
    names = {"--run": "run.trec", "--collection": "passages.tsv", "--queries": "queries.tsv"}
    given = [part for option, name in names.items() for part in (option, str(models / name))]
    for kind in ("mono", "duo"):
        out = str(models / f"{kind}-work")
        done = raypipe_cli("score", *given, "--model", str(models / kind), "--out", out)
        assert done.returncode == 0, done.stderr
    check(models / "mono-work" / "runs" / "queries" / "score.trec", mono_scores(models))
    out = models / "sum-work"
    pairs = str(models / "duo-work")
    done = raypipe_cli("aggregate", "--pairs", pairs, "--method", "sum", "--out", str(out))
    assert done.returncode == 0, done.stderr
    check(out / "runs" / "queries" / "sum.trec", duo_scores(models))
