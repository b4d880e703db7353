"""Comparisons against scipy, hand and brute force; ties under every order of them."""

import itertools
import json
import subprocess
import sys

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare, unjudged
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.paired import holm, randomisation_tests, t_test
from raypipe.evaluation.ties import tie_report

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_the_exact_randomisation_test_is_scipys(count):
    deltas = np.round(RNG.normal(0.1, 1, count), 3)
    expected = stats.permutation_test(
        (deltas, np.zeros(count)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    ).pvalue
    assert randomisation_tests([deltas]) == [pytest.approx(expected)]


def test_the_drawn_randomisation_test_is_near_the_exact_one_and_seeded():
    deltas = np.concatenate([RNG.normal(0.3, 1, 40), np.zeros(10)])
    others = RNG.normal(0, 1, 50)
    first = randomisation_tests([deltas, others], seed=1)
    assert first == randomisation_tests([deltas, others], seed=1)
    # The sum of 40 signed differences is nearly normal.
    normal = 2 * stats.norm.sf(abs(deltas.sum()) / np.sqrt((deltas**2).sum()))
    assert first[0] == pytest.approx(normal, abs=0.02)


def test_the_t_test_is_scipys_and_no_difference_is_1():
    values, base = RNG.random(30), RNG.random(30)
    assert t_test(values - base) == pytest.approx(stats.ttest_rel(values, base).pvalue)
    assert t_test(np.zeros(9)) == 1.0 and t_test(np.array([0.5])) == 1.0
    assert randomisation_tests([np.zeros(9)]) == [1.0]


def test_holms_correction_by_hand():
    # Sorted .01 .02 .03 .5 times 4 3 2 1: .04 .06 .06 .5, made not to fall.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def table(rows):
    return pa.Table.from_pylist(
        [
            {"query_id": q, "passage_id": p, "rank": r, "score": float(-r)}
            for q, passages in rows.items()
            for r, p in enumerate(passages, 1)
        ],
        schema.RUN_FILE,
    )


def qrels_of(rows):
    return pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )


def test_wins_ties_losses_and_missing_queries_by_hand():
    qrels = qrels_of([("1", "a", 1), ("2", "a", 1), ("3", "a", 1), ("4", "a", 1)])
    base = table({"1": ["a"], "2": ["x", "a"], "3": ["a"]})
    other = table({"1": ["x", "a"], "2": ["a"], "3": ["a"]})
    found = compare({"base": base, "other": other}, qrels, ["RR"], baseline="base")
    first, second = found.rows
    assert (first.mean, first.difference, first.p_holm) == (2.5 / 4, None, None)
    assert (second.mean, second.n) == (2.5 / 4, 4)
    assert (second.wins, second.ties, second.losses) == (1, 2, 1)
    assert second.difference.mean == 0 and second.p_randomisation == 1.0
    with pytest.raises(InputError, match="NumRel"):
        compare({"base": base, "other": other}, qrels, ["NumRel"], baseline="base")


def test_the_family_is_every_run_and_measure():
    qrels = qrels_of([(str(q), "a", 1) for q in range(8)])
    runs = {
        name: table({str(q): list(RNG.permutation(list("abcdef"))) for q in range(8)})
        for name in ("x", "y", "z")
    }
    found = compare(runs, qrels, ["RR", "P@2"], baseline="x")
    assert found.family == 4
    p = [row.p_randomisation for row in found.rows if row.p_t is not None]
    assert [row.p_holm for row in found.rows if row.p_t is not None] == holm(p)


def test_unjudged_counts_the_first_k_of_judged_queries():
    run = table({"1": ["a", "b", "c"], "2": ["a", "z"], "9": ["q"]})
    judged = {"1": {"a"}, "2": {"a", "z"}}
    assert unjudged(run, judged, 2) == 1 / 4
    assert unjudged(run, judged, 10) == 2 / 5


def write_trec(path, rows):
    path.write_text("".join(f"{q} Q0 {p} {r} {s} x\n" for q, p, r, s in rows))
    return path


MEASURES = ["nDCG@3", "AP", "RR(rel=2)", "R@2", "P@2"]


def test_best_and_worst_are_those_of_every_order_of_the_ties(tmp_path):
    grades = {"a": 2, "b": 0, "c": 1, "d": 2, "e": -1}
    qrels = qrels_of([("1", p, g) for p, g in grades.items()] + [("2", "a", 2)])
    scores = {"b": 3.25, "e": 2.1, "c": 2.1, "a": 2.1, "f": 1.7, "d": 1.7}
    rows = [("1", p, r, s) for r, (p, s) in enumerate(scores.items(), 1)] + [("2", "a", 1, 1.0)]
    report = tie_report(write_trec(tmp_path / "run", rows), qrels, MEASURES)
    assert (report.num_queries, report.num_rows, report.mixed) == (1, 5, 2)
    values = []
    for three in itertools.permutations("eca"):
        for two in itertools.permutations("fd"):
            run = table({"1": ["b", *three, *two], "2": ["a"]})
            values.append(evaluate(run, qrels, MEASURES).mean)
    for measure in MEASURES:
        assert report.means["best"][measure] == pytest.approx(max(v[measure] for v in values))
        assert report.means["worst"][measure] == pytest.approx(min(v[measure] for v in values))


def test_each_evaluators_order_of_ties_is_its_own(tmp_path):
    queries = [str(q) for q in range(12)]
    passages = [str(p) for p in range(1, 30)]
    rows, judged = [], []
    for query in queries:
        chosen = RNG.permutation(passages)[:20]
        scores = np.sort(RNG.integers(0, 5, 20))[::-1]
        if query == "0":
            scores = np.arange(20, 0, -1)
        rows += [
            (query, p, r, float(s)) for r, (p, s) in enumerate(zip(chosen, scores, strict=True), 1)
        ]
        judged += [(query, str(p), int(RNG.integers(0, 3))) for p in RNG.permutation(passages)[:9]]
    path = write_trec(tmp_path / "run", rows)
    report = tie_report(path, qrels_of(judged), ["RR@10", "RR", "nDCG"])
    scored = [ir_measures.ScoredDoc(q, p, s) for q, p, _, s in rows]
    as_qrels = [ir_measures.Qrel(*row) for row in judged]
    trec = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.nDCG], as_qrels, scored)
    marco = ir_measures.calc_aggregate([ir_measures.RR @ 10], as_qrels, scored)
    assert report.means["trec_eval"]["RR"] == pytest.approx(trec[ir_measures.RR])
    assert report.means["trec_eval"]["nDCG"] == pytest.approx(trec[ir_measures.nDCG])
    assert report.means["msmarco"]["RR@10"] == pytest.approx(marco[ir_measures.RR @ 10])
    by_rank = {q: [p for q2, p, _, _ in rows if q2 == q] for q in queries}
    written = evaluate(table(by_rank), qrels_of(judged), ["RR@10"]).mean["RR@10"]
    assert report.means["written"]["RR@10"] == pytest.approx(written)
    for measure in ("RR@10", "RR", "nDCG"):
        low, high = report.means["worst"][measure], report.means["best"][measure]
        assert all(low <= report.means[o][measure] <= high for o in ("trec_eval", "msmarco"))


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([1.5, 1.5, 0.25], "fp16"),
        ([1.0078125 * 2**20, 1.0078125 * 2**20, 1.0], "bf16"),
        ([0.123, 0.123, 0.457], "3 decimals"),
        ([0.1234567, 0.1234567, 0.7654321], ""),
        ([123456.789, 123456.789, 1.1], ""),
    ],
)
def test_ties_that_low_precision_made_are_warned_of(tmp_path, scores, told):
    qrels = qrels_of([("1", "a", 1), ("1", "b", 0)])
    rows = [("1", p, r, s) for r, (p, s) in enumerate(zip("abc", scores, strict=True), 1)]
    warning = tie_report(write_trec(tmp_path / "run", rows), qrels, ["RR"]).warning
    assert (told in warning) if told else warning == ""
    equal = qrels_of([("1", "a", 1), ("1", "b", 1)])
    assert tie_report(tmp_path / "run", equal, ["RR"]).warning == ""


def test_a_file_of_ranks_has_no_ties(tmp_path):
    path = tmp_path / "run.tsv"
    path.write_text("1\ta\t1\n1\tb\t2\n")
    assert not tie_report(path, qrels_of([("1", "a", 1)]), ["RR"]).scored


def test_the_command_tells_it_all_and_loads_nothing_heavy(tmp_path):
    one = write_trec(tmp_path / "one", [("1", "a", 1, 2.0), ("1", "b", 2, 2.0), ("2", "b", 1, 1.0)])
    two = tmp_path / "two"
    two.write_text("1\tb\t1\n1\ta\t2\n2\ta\t1\n")
    qrels = tmp_path / "qrels"
    qrels.write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n")
    code = (
        "import sys; from raypipe.cli.main import run; codes = [run(sys.argv[1:]), "
        "run([*sys.argv[1:], '--json', '--per-query', sys.argv[-1] + '.tsv'])]; "
        "print([c[0] for c in codes], "
        "[m for m in ('torch','ray','jnius','transformers') if m in sys.modules])"
    )
    arguments = ["compare", one, two, "--measures", "RR@10 nDCG@10", "--qrels", qrels]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[0, 0] []", done.stderr
    assert "RR@10 (n=2)" in done.stdout and "p (Holm)" in done.stdout
    assert "warning: every score is an fp16 number" in done.stdout
    assert f"{two}: ranks without scores, no ties" in done.stdout
    body = json.loads(done.stdout.splitlines()[-2])
    assert body["family"] == 2 and len(body["comparisons"]) == 4
    lines = (tmp_path / "qrels.tsv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 2
    assert f"2\tRR@10\t{two}\t1.0\t1.0" in lines
