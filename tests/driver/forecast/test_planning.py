"""`raypipe plan` against what a run of the same recipe then takes."""

import json
import re

import pytest
import yaml
from foreseen_recipe import RECIPE
from sparse_models import make_routed

from raypipe.cli.main import run as command
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.forecast.plan import make_plan
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.summaries import read_results, write_results
from raypipe.errors import InputError

MODEL_STORES = {
    "vectors": 230,
    "vectors.dev": 12,
    "scores@mono.dev": 12 * 10,
    "scores@deeper.dev": 12 * 15,
    "scores@duo.dev": 12 * 4 * 3,
}
INFERENCES = {**MODEL_STORES, "scores@deeper.dev": 12 * 5}
"""Of the first 15 candidates, those beyond the first 10 are left to score."""


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lines_of(plan):
    return {line.store: line for line in plan.forecast.lines}


def run(recipe, out, **options):
    return run_pipeline(recipe, out, Options(**options), watcher=Watcher()).summary


@pytest.mark.slow
def test_a_plan_has_the_stores_rows_tokens_and_inferences_of_the_run(recipe, tmp_path):
    plan = make_plan(recipe(), tmp_path / "work")
    assert not (tmp_path / "work").exists()
    lines, summary = lines_of(plan), run(recipe(), tmp_path / "work")
    assert set(lines) == set(summary["stages"])
    facts = {name: stage["computed"] for name, stage in summary["stages"].items()}
    rows = {name: round(lines[name].rows) for name in MODEL_STORES}
    assert rows == MODEL_STORES
    assert {name: summary["stages"][name]["rows"] for name in MODEL_STORES} == MODEL_STORES
    for name in ("vectors", "vectors.dev"):  # the collection is read whole, so they are exact
        assert lines[name].tokens == facts[name]["tokens"] > 0
    for name in MODEL_STORES.keys() - {"vectors", "vectors.dev"}:
        assert lines[name].inferences == facts[name]["rows"] == INFERENCES[name]
    # The short run's three candidates may be among those of the other run.
    short = lines["scores@short.dev"]
    assert facts[short.store]["rows"] <= short.inferences == 12 * 3
    for name in ("vectors", "vectors.dev", "tokens@tiny"):
        assert lines[name].bytes == pytest.approx(facts[name]["bytes"], rel=0.2), name
    least = sum(fact["bytes"] for fact in facts.values())
    assert least <= sum(lines[name].bytes for name in facts) <= 1.5 * least
    for name, line in lines.items():
        planned = summary["stages"][name]["shards"]["planned"]
        assert line.shards == pytest.approx(planned, rel=0.5), name


def test_queries_by_a_table_take_no_time_of_a_model(recipe, tmp_path):
    routed = make_routed(tmp_path / "routed")
    lines = lines_of(make_plan(recipe(f"models.tiny.path={routed}"), tmp_path / "work"))
    assert lines["vectors"].tokens > 0 and lines["vectors.dev"].rows == 12
    assert not lines["vectors.dev"].tokens


def test_the_seconds_of_models_are_probed_and_those_of_no_other_store(recipe, tmp_path):
    plan = make_plan(recipe(), tmp_path / "work")
    lines = lines_of(plan)
    with_model = {name for name, line in lines.items() if line.model_seconds}
    assert with_model == {*MODEL_STORES, "scores@short.dev"}
    assert all(line.seconds >= line.model_seconds for line in lines.values())
    assert plan.hours > 0
    assert {rate.by for rate in plan.forecast.rates.values()} == {"probe"}


def test_the_rate_of_the_last_run_is_taken_from_its_log(recipe, files, tmp_path, monkeypatch):
    run(recipe(), tmp_path / "work", until="dense")
    monkeypatch.setattr("raypipe.driver.forecast.rates.LEAST_SECONDS", 0.001)
    with (files / "passages.tsv").open("a") as file:
        file.write("230\tzebra\n")
    again = make_plan(recipe(), tmp_path / "work").forecast
    assert again.rates["vectors"].by == "log" and again.rates["scores@mono.dev"].by == "probe"
    # The model encodes the queries too.
    files = (tmp_path / "work" / "stores").glob("vectors*/*/attempts.jsonl")
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    tokens, seconds = (sum(e.get(k, 0) for e in events) for k in ("tokens", "cpu_seconds"))
    assert again.rates["vectors"].tokens_per_second == pytest.approx(tokens / seconds)
    results = read_results(tmp_path / "work")
    write_results(tmp_path / "work", results | {"device": "another"})
    other = make_plan(recipe(), tmp_path / "work").forecast
    assert other.rates["vectors"].by == "probe"


def test_scores_that_two_rerankers_share_are_counted_twice_until_the_runs_are_there(
    files, tiny_model, tiny_mono, tmp_path
):
    """Mono over a search and over a fusion that holds it."""
    body = yaml.safe_load(RECIPE.format(folder=files, model=tiny_model, mono=tiny_mono, duo=""))
    del body["models"]["duo"]
    kept = {name: body["stages"][name] for name in ("vectors", "dense", "given", "fused", "mono")}
    body["stages"] = kept | {"both": {**kept["mono"], "run": "fused"}}
    recipe, work = load_recipe(yaml.safe_dump(body, sort_keys=False), source="two"), tmp_path / "w"
    first = make_plan(recipe, work).forecast
    run(recipe, work, until="fused")
    known = make_plan(recipe, work).forecast
    stages = run(recipe, work)["stages"]
    fact = {name: stage["computed"] for name, stage in stages.items() if "scores@" in name}
    inferences = sum(each["rows"] for each in fact.values())
    assert inferences < first.total("inferences") == 12 * 20
    assert known.total("inferences") == inferences
    assert known.total("tokens") == pytest.approx(
        sum(each["tokens"] for each in fact.values()), rel=0.05
    )


def test_of_ever_more_candidates_of_one_run_only_the_new_ones_are_scored(
    files, tiny_model, tiny_mono, tmp_path
):
    body = yaml.safe_load(RECIPE.format(folder=files, model=tiny_model, mono=tiny_mono, duo=""))
    del body["models"]["duo"]
    kept = {name: body["stages"][name] for name in ("vectors", "dense", "mono")}
    more = {f"first-{k0}": {**kept["mono"], "k0": k0} for k0 in (15, 20)}
    first, whole = (
        yaml.safe_dump(body | {"stages": each}, sort_keys=False) for each in (kept, kept | more)
    )
    recipe, work = load_recipe(whole), tmp_path / "w"
    shorter = load_recipe(first, overrides=["models.mono.settings={total_limit: 20}"])

    def found():
        lines = lines_of(make_plan(recipe, work))
        return [lines[f"scores@{name}.dev"].inferences for name in ("mono", *more)]

    assert found() == [12 * 10, 12 * 5, 12 * 5]
    for last in (load_recipe(first), shorter):  # then nothing refers to the first
        run(last, work)
        assert found() == [0, 12 * 5, 12 * 5]


@pytest.mark.slow
def test_what_is_there_is_reused_and_nothing_in_the_workspace_changes(recipe, tmp_path):
    work = tmp_path / "work"
    run(recipe(), work, until="mono")
    before = contents(work)
    plan = make_plan(recipe(), work)
    assert contents(work) == before
    lines = lines_of(plan)
    reused = {name for name, line in lines.items() if line.reused}
    assert {"vectors", "dense.dev", "scores@mono.dev", "mono.dev", "queries@dev"} <= reused
    assert not reused & {"scores@deeper.dev", "scores@duo.dev", "duo.dev", "duo-sum.dev"}
    assert all(lines[name].seconds == lines[name].bytes == 0 for name in reused)
    assert round(lines["scores@duo.dev"].inferences) == 12 * 4 * 3
    run(recipe(), work)
    again = make_plan(recipe(), work)
    assert {line.store for line in again.forecast.lines if not line.reused} == set()
    assert again.forecast.total("tokens") == again.forecast.total("seconds") == 0


def test_another_setting_makes_only_what_depends_on_it_new(recipe, tmp_path):
    run(recipe(), tmp_path / "work")
    plan = make_plan(recipe("stages.duo.k1=3"), tmp_path / "work")
    new = {line.store for line in plan.forecast.lines if not line.reused}
    assert new == {"scores@duo.dev", "duo.dev", "duo-sum.dev"}
    (empty,) = (line for line in plan.forecast.lines if line.store == "scores@duo.dev")
    assert empty.inferences == empty.tokens == 0  # the pairs of the first 3 have scores


@pytest.mark.slow
def test_of_a_run_that_is_there_only_candidates_without_a_score_are_forecast(recipe, tmp_path):
    run(recipe(), tmp_path / "work")
    more = recipe("stages.deeper.k0=18", "stages.short.k0=5")
    lines = lines_of(make_plan(more, tmp_path / "work"))
    told = run(more, tmp_path / "work")["stages"]
    for store in ("scores@deeper.dev", "scores@short.dev"):
        assert round(lines[store].inferences) >= told[store]["computed"]["rows"]
    assert lines["scores@deeper.dev"].inferences == told["scores@deeper.dev"]["computed"]["rows"]


def test_word_pieces_of_candidates_alone_are_forecast_by_their_passages(files, tiny_mono, tmp_path):
    body = yaml.safe_load(RECIPE.format(folder=files, model="", mono=tiny_mono, duo=""))
    body["models"] = {"mono": body["models"]["mono"]}
    body["stages"] = {name: body["stages"][name] for name in ("given", "short")}
    recipe = load_recipe(yaml.safe_dump(body, sort_keys=False), source="foreseen")
    store, work = "pieces@short.dev", tmp_path / "work"
    assert lines_of(make_plan(recipe, work))[store].rows == 12 * 3  # each has a passage of its own
    run(recipe, work, until="given")
    line = lines_of(make_plan(recipe, work))[store]
    fact = run(recipe, work)["stages"][store]["computed"]
    assert line.rows == fact["rows"] == 12 + 2  # query n has the passages n + 1 to n + 3
    assert line.bytes == pytest.approx(fact["bytes"], rel=0.25)


def test_all_missing_inputs_are_told_at_once(recipe, files, tmp_path):
    for name in ("passages.tsv", "queries.tsv"):
        (files / name).unlink()
    with pytest.raises(InputError) as found:
        make_plan(recipe(), tmp_path / "work")
    assert len(found.value.problems) == 2


def test_a_plan_refuses_a_file_without_passages_and_a_query_set_without_a_run(
    recipe, files, tmp_path
):
    queries = f"{{file: {files}/queries.tsv}}"
    two = recipe(f"queries={{dev: {queries}, more: {queries}}}")
    with pytest.raises(InputError, match="^stages.given.runs: no file for the query set more$"):
        make_plan(two, tmp_path / "work")
    (files / "passages.tsv").write_text("")
    with pytest.raises(InputError, match="passages.tsv: expected passages, found no record$"):
        make_plan(recipe(), tmp_path / "work")


def test_an_interrupted_store_counts_with_what_is_left_of_it(recipe, tmp_path, monkeypatch):
    from raypipe.stages.encode import EncodeStage

    work, encoded = tmp_path / "work", EncodeStage._run
    done = []  # the longest comes first, which need not be shard 0

    def fails(stage, encoder, source, hashes, scratch, shard, skip, beat):
        if done:
            raise InputError("stopped")
        done.append(shard)
        return encoded(stage, encoder, source, hashes, scratch, shard, skip, beat)

    small = recipe("resources.shard_tokens=1100")
    whole = lines_of(make_plan(small, work))["vectors"]
    monkeypatch.setattr(EncodeStage, "_run", fails)
    with pytest.raises(InputError, match="stopped"):
        run(small, work)
    monkeypatch.undo()
    (plan,) = (work / "stores" / "vectors").glob("*/plan.json")
    assert len(json.loads(plan.read_text())["body"]["shards"]) > 1
    left = lines_of(make_plan(small, work))["vectors"]
    share = 1 - done[0].num_rows / 230
    assert left.tokens == pytest.approx(share * whole.tokens)
    assert left.bytes == pytest.approx(share * whole.bytes)


def test_what_the_forecast_of_a_run_computed_counts_as_computed_by_it(recipe, tmp_path):
    summary = run(recipe(), tmp_path / "work", until="dense")
    stages = summary["stages"]
    assert not stages["queries@dev"]["reused"] and not stages["count@collection"]["reused"]
    assert stages["queries@dev"]["computed"]["bytes"] > 0
    assert {"mono.dev", "duo.dev"}.isdisjoint(stages)
    again = run(recipe(), tmp_path / "work", until="dense")
    assert all(stage["reused"] for stage in again["stages"].values())
    assert not any(stage["computed"]["bytes"] for stage in again["stages"].values())


def test_nothing_is_read_of_stores_that_are_there(recipe, tmp_path, monkeypatch):
    work = tmp_path / "work"
    run(recipe(), work)
    monkeypatch.setattr("raypipe.driver.forecast.samples.Samples.sample", lambda *_: 1 / 0)
    monkeypatch.setattr("raypipe.driver.forecast.rates._probed", lambda *_, **__: 1 / 0)
    assert all(line.reused for line in make_plan(recipe(), work).forecast.lines)


def test_the_command_prints_the_forecast(files, tiny_model, tiny_mono, tiny_duo, tmp_path, capsys):
    text = RECIPE.format(folder=files, model=tiny_model, mono=tiny_mono, duo=tiny_duo)
    (tmp_path / "r.yaml").write_text(text)
    words = ["plan", str(tmp_path / "r.yaml"), "--out", str(tmp_path / "work")]
    assert command([*words, "--json"]) == (0, "complete")
    told = json.loads(capsys.readouterr().out)
    assert told["hours"] > 0 and told["stages"]["vectors"]["tokens"] > 0
    assert told["stages"]["scores@duo.dev"]["inferences"] == 12 * 12
    assert command([*words, "stages.duo.k1=3"]) == (0, "complete")
    printed = capsys.readouterr().out
    assert re.search(r"\| scores@duo.dev +\| 72 +\| [\d,]+ +\| 72 ", printed)
    assert not (tmp_path / "work").exists()
