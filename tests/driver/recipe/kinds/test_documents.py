"""Runs of documents of a recipe: by hand from the passages' scores, measured, and described."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from library_layouts import late
from recipes import invoke
from small_documents import recipe_of, write_inputs

import raypipe
from raypipe.data.qrels import read_qrels
from raypipe.driver.upkeep.export import export
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, RefusedError
from raypipe.kinds.documents import DocumentRun
from raypipe.kinds.score import MonoScore
from raypipe.kinds.search import DenseSearch
from raypipe.leaderboard.boards import BOARDS, SCRIPTS
from raypipe.leaderboard.rules import check_lines, read_run_lines
from raypipe.models.folder.model_folder import resolve_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("documents")
    write_inputs(found)
    return found


@pytest.fixture(scope="module")
def done(folder, tiny_model, tiny_mono):
    """The finished invocation."""
    return raypipe.run(recipe_of(folder, tiny_model, tiny_mono), folder / "work")


@pytest.fixture(scope="module")
def runs(done):
    """System -> query -> [(id, score)] in the order of the run."""
    found = {}
    for system, table in done.runs["test"].items():
        for row in table.to_pylist():
            queries = found.setdefault(system, {})
            queries.setdefault(row["query_id"], []).append((row["passage_id"], row["score"]))
    return found


def by_hand(passages, score):
    """Documents by the function of their passages' scores by window; ties by number."""
    own = {}
    for passage, found in passages:
        document, _, window = passage.rpartition("#")
        own.setdefault(document, []).append((int(window), found))
    scores = {d: np.float32(score([s for _, s in sorted(lines)])) for d, lines in own.items()}
    return sorted(scores.items(), key=lambda line: (-line[1], int(line[0][1:])))


def log_odds(log_probability):
    return -np.log(np.expm1(-np.float64(log_probability)))


METHODS = {
    "maxp": (lambda s: max(s), log_odds),
    "kmax": (lambda s: np.mean(sorted(s)[::-1][:2]), log_odds),
    "mean-p": (np.mean, np.exp),
}


@pytest.mark.parametrize("system", METHODS)
def test_the_first_documents_are_by_the_rerankers_scores_and_the_tail_below(runs, system):
    aggregated, converted = METHODS[system]
    for query, passages in runs["mono"].items():
        scored = [(p, np.float32(converted(s))) for p, s in passages[:12]]
        expected = by_hand(scored, aggregated)
        found = runs[system][query]
        assert [d for d, _ in found[: len(expected)]] == [d for d, _ in expected]
        np.testing.assert_allclose(
            [s for _, s in found[: len(expected)]], [s for _, s in expected], rtol=1e-5, atol=1e-6
        )
        known = {document for document, _ in expected}
        tail = [line for line in passages[12:] if line[0].rpartition("#")[0] not in known]
        below = by_hand(tail, aggregated if system != "mean-p" else np.mean)
        assert found[len(expected) :] == [(d, s) for d, s in below]


def test_a_first_stages_scores_are_aggregated_as_they_are_and_cut(runs):
    for query, passages in runs["dense"].items():
        expected = by_hand(passages, sum)[:5]
        assert [d for d, _ in runs["dense-sump"][query]] == [d for d, _ in expected]


def test_passages_of_given_documents_are_scored_and_ranked_again(runs):
    given = runs["given"]["q1"]
    assert given == [("D0", 9.0), ("D5", 8.0), ("D10", 7.0), ("D3", 6.0)]
    assert runs["windows"]["q1"] == [
        ("D0#0", 9.0), ("D5#0", 8.0), ("D5#1", 8.0), ("D10#0", 7.0), ("D10#1", 7.0),
    ]  # fmt: skip
    expected = by_hand(runs["again"]["q1"], lambda s: s[0])
    assert runs["again-firstp"]["q1"] == expected
    assert set(runs["windows"]) == {"q1", "q3"}


def test_runs_of_documents_are_fused_by_their_ids(runs):
    places = {}
    for system in ("maxp", "given"):
        for rank, (document, _) in enumerate(runs[system]["q3"], 1):
            places[document] = places.get(document, 0) + 1 / (60 + rank)
    expected = sorted(places, key=lambda d: (-np.float32(places[d]), int(d[1:])))
    assert [d for d, _ in runs["fused"]["q3"]] == expected[:7]


def test_only_runs_of_documents_are_measured_by_judgements_of_documents(done, runs):
    means = done.summary["measures"]["test"]
    assert set(means) == {"maxp", "kmax", "mean-p", "dense-sump", "given", "again-firstp", "fused"}
    relevant = {"q1": {"D1", "D4"}, "q2": {"D7"}}
    ranks = []
    for query, wanted in relevant.items():
        found = [d for d, _ in runs["maxp"][query][:10]]
        ranks.append(next((1 / n for n, d in enumerate(found, 1) if d in wanted), 0))
    assert means["maxp"]["RR@10"] == pytest.approx(np.mean(ranks))
    table = (done.folder / "table.md").read_text()
    assert table.startswith("## test, documents\n")
    assert "12 documents, 34 passages, 3 queries" in table


def test_a_run_file_of_documents_has_their_ids(done, runs):
    lines = (done.folder / "runs" / "test" / "maxp.trec").read_text().splitlines()
    assert [line.split()[2] for line in lines if line.startswith("q1 ")] == [
        document for document, _ in runs["maxp"]["q1"]
    ]


def test_the_scores_below_a_table_of_documents_count_for_its_first_system(done):
    """The passages' own run is in no table here: without it, nothing would seem computed."""
    systems = done.summary["systems"]["test"]
    computed = {n: told["computed"] for n, told in systems.items() if "computed" in told}
    assert computed["maxp"] == computed["mono"] == systems["mono"]["inferences"] > 0
    assert computed["kmax"] == computed["mean-p"] == computed["fused"] == 0
    assert computed["again-firstp"] == computed["again"] == systems["again"]["inferences"] > 0
    row = next(
        line for line in (done.folder / "table.md").read_text().splitlines() if "maxp" in line
    )
    assert row.split("|")[-2].strip() == row.split("|")[-3].strip() != "0.0"


def test_a_run_of_documents_is_described_by_its_run_and_method(done):
    systems = done.summary["systems"]["test"]
    assert systems["kmax"]["reranks"] == "mono, k-max-avgp, k=2"
    assert (systems["maxp"]["reranks"], systems["maxp"]["model"]) == ("mono, maxp", "mono")
    assert systems["windows"]["reranks"] == "given, first 3"
    assert systems["maxp"]["inferences"] == systems["mono"]["inferences"]


def test_the_resolved_recipe_says_where_the_splitting_is_from(done):
    text = (done.folder / "recipe.yaml").read_text()
    assert "by: words  # default; CIP at TREC 2021 DL, section 3" in text
    assert "    length: 3\n" in text and "over: raw  # default; raypipe's choice" in text


def test_a_run_of_documents_is_exported_with_their_ids(done, runs, tmp_path):
    import pyarrow.parquet as pq

    export(done.folder / "stores" / "kmax.test", "parquet", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "run.parquet")
    found = [r["passage_id"] for r in table.to_pylist() if r["query_id"] == "q2"]
    assert found == [document for document, _ in runs["kmax"]["q2"]]
    assert verify(open_workspace(done.folder)) == []


def test_the_same_recipe_reuses_all_and_another_splitting_is_refused_when_frozen(
    done, folder, tiny_model, tiny_mono
):
    body = recipe_of(folder, tiny_model, tiny_mono)
    again = raypipe.run(body, done.folder, frozen=True)
    assert all(stage["reused"] for stage in again.summary["stages"].values())
    body["collection"]["split"]["length"] = 4
    with pytest.raises(RefusedError, match="passages@collection: params.length 3 -> 4"):
        raypipe.run(body, done.folder, frozen=True)


def test_a_run_of_documents_holds_to_the_rules_of_their_board(done, folder):
    run = read_run_lines(done.folder / "runs" / "test" / "maxp.tsv")
    findings = check_lines(run, BOARDS["msmarco-doc"], queries=["q1", "q2", "q3"], fewer_rows=True)
    # But for the ids of the queries, which are numbers there.
    assert [f.rule for f in findings if not f.ok] == ["query ids"]
    mean, num = SCRIPTS["MRR @100"](run.rankings(), read_qrels(folder / "qrels.txt"))
    assert (mean, num) == (pytest.approx(done.summary["measures"]["test"]["maxp"]["RR@10"]), 2)


def test_a_document_that_the_collection_lacks_is_refused_by_its_id(
    folder, tmp_path, tiny_model, tiny_mono
):
    body = recipe_of(folder, tiny_model, tiny_mono)
    (tmp_path / "bad.trec").write_text("q1 Q0 D99 1 1 x\n")
    body["stages"] = {"given": {**body["stages"]["given"], "runs": {"test": "bad.trec"}}}
    body["evaluate"]["baseline"] = "given"
    with pytest.raises(InputError, match="1 document ids are not in the collection, first D99"):
        invoke(body, tmp_path / "work", base=tmp_path)


@pytest.mark.parametrize(
    ("score", "over", "words"),
    [("raw", "raw", "expected their difference"), ("probability", "raw", "no longer tell")],
)
def test_scores_that_lack_what_is_aggregated_are_refused_before_any_work(
    folder, tmp_path, tiny_model, tiny_mono, score, over, words
):
    body = recipe_of(folder, tiny_model, tiny_mono)
    body["stages"] = {
        name: body["stages"][name] for name in ("embeddings", "dense", "mono", "maxp")
    }
    body["evaluate"]["baseline"] = "dense"
    if score == "raw":
        body["stages"]["mono"]["score"] = "raw"
    else:  # the model's own scale, which the recipe does not show
        import shutil

        shutil.copytree(tiny_mono, tmp_path / "mono")
        settings = json.loads((tmp_path / "mono" / "raypipe.json").read_text())
        (tmp_path / "mono" / "raypipe.json").write_text(json.dumps({**settings, "score": score}))
        assert resolve_model(str(tmp_path / "mono")).reranker.score == "probability"
        body["models"]["mono"]["path"] = str(tmp_path / "mono")
    with pytest.raises(InputError, match=words):
        invoke(body, tmp_path / "work")
    assert not (tmp_path / "work" / "stores" / "count@collection").exists()


@pytest.mark.parametrize(
    ("blend", "over", "expected"),
    [(0.5, "raw", "none"), (0.5, "probability", "probability"), (0.0, "raw", "log-odds"),
     (0.0, "probability", "probability-of-log")],
)  # fmt: skip
def test_the_scores_of_a_blend_are_log_odds_already(tiny_mono, blend, over, expected):
    mono = MonoScore(do="score", run="dense", model="mono", k0=5, blend=blend)
    model = resolve_model(str(tiny_mono))
    stages = {"dense": DenseSearch(do="search", index="vectors"), "mono": mono}
    graph = SimpleNamespace(recipe=SimpleNamespace(stages=stages), model=lambda name: model)
    stage = DocumentRun(do="documents", run="mono", method="maxp", over=over)
    assert stage.conversion(graph, "maxp") == expected


def test_sums_of_late_interaction_have_no_probability(tmp_path):
    model = resolve_model(str(late(tmp_path)))
    mono = MonoScore(do="score", run="dense", model="mono", k0=5)
    stages = {"dense": DenseSearch(do="search", index="vectors"), "mono": mono}
    graph = SimpleNamespace(recipe=SimpleNamespace(stages=stages), model=lambda name: model)
    stage = DocumentRun(do="documents", run="mono", method="maxp")
    assert stage.conversion(graph, "maxp") == "none"
    stage = DocumentRun(do="documents", run="mono", method="maxp", over="probability")
    with pytest.raises(InputError, match=r"stages.maxp.over: .* no probability; write over: raw"):
        stage.conversion(graph, "maxp")
