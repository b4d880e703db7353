"""Score and aggregate stages of a recipe: what is computed, kept and ranked."""

import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reranking_recipe import lines

from raypipe import schema
from raypipe.driver.upkeep.export import export
from raypipe.errors import InputError
from raypipe.evaluation.tables import markdown
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_scorer
from raypipe.report.finished import open_finished
from raypipe.report.first_stages import depth
from raypipe.report.results import results
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch


def payloads(stores, name, columns):
    tables = []
    for manifest in sorted(stores.glob(f"{name}/*/manifest.json")):
        for record in json.loads(manifest.read_text())["body"]["records"]:
            tables.append(pq.read_table(stores / "blobs" / record["sha256"][:2] / record["sha256"]))
    return pa.concat_tables(tables).cast(columns) if tables else columns.empty_table()


def texts_of(path):
    pairs = (line.split("\t", 1) for line in path.read_text().splitlines())
    return dict(pairs)


def one_by_one(folder):
    """A function that scores one query with one passage, or two, and nothing beside them."""
    model = resolve_model(str(folder))
    tokenizer, scorer = open_tokenizer(model), load_scorer(model)

    def score(*texts):
        parts = []
        for text in texts:
            flat, offsets = tokenize_batch(tokenizer, [text], max_pieces=512)
            parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))
        return scorer.score(parts[0], parts[1:])[0]

    return score


def test_mono_reorders_its_first_k0_by_scores_of_pairs_alone(finished, files, tiny_mono):
    work, score = finished[0] / "work", one_by_one(tiny_mono)
    first, mono = lines(work, "first"), lines(work, "mono")
    queries, passages = texts_of(files / "queries.test.tsv"), texts_of(files / "passages.tsv")
    row = {passage: place for place, passage in enumerate(passages)}
    for query in list(first)[:4]:
        top = first[query][:12]
        scores = {p: score(queries[query], passages[p]) for p in top}
        expected = sorted(top, key=lambda p: (-scores[p], row[p]))
        assert mono[query] == expected + first[query][12:]


def test_duo_sum_reorders_its_first_k1_by_sums_of_every_pair(finished, files, tiny_duo):
    work, score = finished[0] / "work", one_by_one(tiny_duo)
    mono, duo = lines(work, "mono"), lines(work, "duo-sum")
    queries, passages = texts_of(files / "queries.test.tsv"), texts_of(files / "passages.tsv")
    for query in list(mono)[:4]:
        top = mono[query][:4]
        sums = {
            i: sum(
                np.float64(score(queries[query], passages[i], passages[j])) for j in top if j != i
            )
            for i in top
        }
        assert duo[query] == sorted(top, key=lambda p: -sums[p]) + mono[query][4:]


def test_depth_is_unchanged_but_where_the_tail_is_dropped(finished):
    root, summary = finished
    recall = {name: m["R@20"] for name, m in summary["measures"]["test"].items()}
    same = {recall[name] for name in ("first", "mono", "duo-sum", "duo-sample")}
    assert len(same) == 1 and same != {0.0}
    assert all(len(found) == 3 for found in lines(root / "work", "duo-min").values())


def test_every_probability_is_kept_and_inferences_are_those_evaluated(finished):
    root, _ = finished
    num_queries = len(lines(root / "work", "first"))
    kept = payloads(root / "stores", "duo.test", schema.SCORES)
    evaluated = payloads(root / "stores", "scores@duo.test", schema.SCORES)
    assert kept.num_rows == evaluated.num_rows == num_queries * 4 * 3
    assert payloads(root / "stores", "scores@mono.test", schema.SCORES).num_rows == (
        num_queries * 12
    )


def test_inferences_are_told_of_each_system(finished):
    root, summary = finished
    num_queries = len(lines(root / "work", "first"))
    names = ("inferences", "computed", "copied")
    told = {
        system: [entry[name] / num_queries for name in names if name in entry]
        for system, entry in summary["systems"]["test"].items()
    }
    assert told == {
        "first": [],
        "mono": [12, 12, 0],
        "duo-sum": [12 + 4 * 3, 4 * 3, 0],
        "duo-min": [12 + 3 * 2, 0, 0],
        "duo-sample": [12 + 4 * 2, 0, 0],
    }
    table = (root / "work" / "table.md").read_text()
    row = next(line for line in table.splitlines() if line.startswith("| duo-min"))
    assert row.endswith("| 18.0             | 0.0            |")
    assert "- inferences/query: what the whole chain asks of its rerankers;" in table
    assert markdown(results(open_finished(root / "work"))) == table


def test_runs_and_pairs_are_exported_with_original_ids(finished, tmp_path):
    root, _ = finished
    count = export(root / "stores" / "duo.test", "parquet", tmp_path / "pairs")
    pairs = pq.read_table(tmp_path / "pairs" / "pairs.parquet")
    assert pairs.column_names == ["query_id", "passage_id", "other_id", "probability"]
    mono = lines(root / "work", "mono")
    found = set(zip(*(pairs[c].to_pylist() for c in pairs.column_names[:3]), strict=True))
    expected = {(q, i, j) for q, ps in mono.items() for i in ps[:4] for j in ps[:4] if i != j}
    assert found == expected and count == len(expected)
    assert export(root / "stores" / "duo-sum.test", "parquet", tmp_path / "run") == sum(
        map(len, lines(root / "work", "duo-sum").values())
    )


def test_no_passage_outside_the_run_is_tokenised(finished, files):
    root, summary = finished
    named = {p for ps in lines(root / "work", "first").values() for p in ps[:12]}
    assert summary["stages"]["pieces@mono.test"]["rows"] == len(named)
    assert not [*root.glob("stores/tokens@*")]


def scores_of(work, system):
    """query -> passage -> score of a run's lines."""
    found = {}
    for line in (work / "runs" / "test" / f"{system}.trec").read_text().splitlines():
        query, _, passage, _, score, _ = line.split()
        found.setdefault(query, {})[passage] = float(score)
    return found


def test_a_blend_orders_by_the_runs_scores_and_the_models_log_odds(run, finished, tmp_path):
    """By a plain loop over what the two runs without it say; nothing is scored again."""
    root, before = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    told = run(tmp_path / "work", stores, "stages.mono.blend=0.05", until="mono")
    system = told["systems"]["test"]["mono"]
    assert system["reranks"] == "first, first 12, blend 0.05"
    assert told["stages"]["scores@mono.test"]["reused"]
    assert not told["stages"]["mono.test"]["reused"]
    assert told["systems"]["test"]["first"] == before["systems"]["test"]["first"]
    first, f = (scores_of(root / "work", name) for name in ("first", "mono"))
    found = scores_of(tmp_path / "work", "mono")
    moved = 0
    for query, scores in first.items():
        top = sorted(scores, key=scores.get, reverse=True)[:12]
        low, high = scores[top[-1]], scores[top[0]]
        s = {
            p: 0.05 * (scores[p] - low) / (high - low) - math.log(math.expm1(-f[query][p]))
            for p in top
        }
        assert list(found[query])[:12] == sorted(top, key=s.get, reverse=True)
        assert [found[query][p] for p in top] == pytest.approx([s[p] for p in top], abs=1e-6)
        assert list(found[query])[12:] == list(scores)[12:]
        moved += list(found[query])[:12] not in (top, list(f[query])[:12])
    assert moved > 10


def test_fewer_candidates_of_a_blend_are_told_as_a_stage_of_so_many_has_them(
    run, finished, tmp_path
):
    root, _ = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    run(tmp_path / "work", stores, "stages.mono.blend=0.05", until="mono")
    five = run(
        tmp_path / "five", stores, "stages.mono.blend=0.05", "stages.mono.k0=5", until="mono"
    )
    (_, table) = depth(open_finished(tmp_path / "work"), "test").tables
    by_candidates = {row[2]: row[3:] for row in table.rows}
    assert by_candidates[5] == list(five["measures"]["test"]["mono"].values())
    assert by_candidates[5] != by_candidates[12]


def test_a_models_own_blend_is_taken_and_0_in_the_recipe_is_none(
    run, finished, tiny_mono, tmp_path
):
    root, _ = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    settings = "models.mono.settings={blend: 0.05}"
    own = run(tmp_path / "own", stores, settings, until="mono")
    given = run(tmp_path / "given", stores, "stages.mono.blend=0.05", until="mono")
    none = run(tmp_path / "none", stores, settings, "stages.mono.blend=0", until="mono")
    plain = json.loads((root / "work" / "summary.json").read_text())
    stage = "mono.test"
    assert own["stages"][stage]["fingerprint"] == given["stages"][stage]["fingerprint"]
    assert none["stages"][stage]["fingerprint"] == plain["stages"][stage]["fingerprint"]
    assert none["systems"]["test"]["mono"]["reranks"] == "first, first 12"
    with pytest.raises(InputError, match="stages.mono: blend 0.05 needs the model's log odds"):
        run(tmp_path / "bad", stores, settings, "stages.mono.score=probability", until="mono")


def test_below_the_table_of_a_run_from_a_file_stands_the_weight_that_is_for_bm25_alone(
    run, finished, tmp_path
):
    stores = shutil.copytree(finished[0] / "stores", tmp_path / "stores")

    def table(out, *settings):
        told = run(tmp_path / out, stores, *settings, until="mono")["systems"]["test"]["mono"]
        assert told["reranks"] == "first, first 12, blend 0.05"
        return (tmp_path / out / "table.md").read_text()

    said = "mono: blend 0.05, of mono's settings; if first is of BM25 alone, set blend to 0.5"
    other = "models.mono.settings={blend: 0.05, blend_over_bm25: 0.5}"
    assert table("work", other).count(said) == 1
    assert "BM25 alone" not in table("given", other, "stages.mono.blend=0.05")
    assert "BM25 alone" not in table("same", other.replace("0.5}", "0.05}"))


@pytest.mark.jvm
@pytest.mark.slow
def test_over_a_search_by_bm25_the_models_weight_for_it_is_taken(run, finished, tmp_path):
    stores = shutil.copytree(finished[0] / "stores", tmp_path / "stores")
    settings = "models.mono.settings={blend: 0.05, blend_over_bm25: 0.5}"
    more = "  lucene: {do: index}\n  bm25: {do: search, index: lucene, depth: 20}\n"
    more += "  over: {do: score, run: bm25, model: mono, k0: 5}\n"
    told = run(tmp_path / "work", stores, settings, more=more, until="over")
    assert told["systems"]["test"]["over"]["reranks"] == "bm25, first 5, blend 0.5"
