"""A comparison's direction, seed and p values, on data that is not symmetric."""

import itertools
import json
from math import comb

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.cli.main import run as command
from raypipe.evaluation.compare import compare
from raypipe.evaluation.difference import difference
from raypipe.evaluation.paired import randomisation_tests
from raypipe.evaluation.ties import tie_report

QUERIES = [str(number) for number in range(12)]
QRELS = pa.table(
    [QUERIES, ["a"] * 12, np.ones(12, np.int32)],
    schema=schema.QRELS,
)


def table(ranks):
    """A run in which query i has its relevant passage `a` at ranks[i]."""
    rows = [
        {"query_id": q, "passage_id": "a" if r == rank else f"x{r}", "rank": r, "score": -float(r)}
        for q, rank in zip(QUERIES, ranks, strict=False)
        for r in range(1, 5)
    ]
    return pa.Table.from_pylist(rows, schema.RUN_FILE)


def test_a_run_that_is_better_has_wins_and_a_positive_difference():
    qrels = QRELS.slice(0, 3)
    base, other = table([2, 1, 4]), table([1, 1, 2])
    first, better = compare({"b": base, "o": other}, qrels, ["RR"], baseline="b").rows
    assert (better.wins, better.ties, better.losses) == (2, 1, 0)
    # (1 - 1/2 + 0 + 1/2 - 1/4) / 3
    assert better.difference.mean == pytest.approx(0.25)
    assert 0 <= better.difference.low < better.difference.high <= 0.5
    (worse, _) = compare({"b": base, "o": other}, qrels, ["RR"], baseline="o").rows
    assert (worse.wins, worse.ties, worse.losses) == (0, 1, 2)
    assert worse.difference.mean == pytest.approx(-0.25)
    assert first.difference is None and worse.difference.high <= 0


def test_the_difference_is_the_first_minus_the_second():
    found = difference({"1": 0.75, "2": 1.0}, {"1": 0.5, "2": 0.5})
    assert (found.mean, found.low, found.high) == (0.375, 0.25, 0.5)


def test_the_interval_holds_the_middle_95_percent_of_resampled_means():
    # The mean of 100 resampled values 0 or 1 is binomial: 50 +- 1.96 * 5 of a hundred.
    values = {str(n): float(n % 2) for n in range(100)}
    found = difference(values, dict.fromkeys(values, 0.0))
    assert found.low == pytest.approx(0.40, abs=0.011)
    assert found.high == pytest.approx(0.60, abs=0.011)


def test_two_seeds_give_two_intervals_and_two_p_values():
    rng = np.random.default_rng(4)
    queries = [str(number) for number in range(40)]
    values = dict(zip(queries, rng.random(40), strict=True))
    base = dict.fromkeys(queries, 0.45)
    one, other = (difference(values, base, seed=seed) for seed in (1, 2))
    assert (one.low, one.high) != (other.low, other.high) and one.mean == other.mean
    deltas = np.array([values[query] - 0.45 for query in queries])
    assert randomisation_tests([deltas], seed=1) != randomisation_tests([deltas], seed=2)


def files(folder, num_queries):
    """A baseline that finds `a` at ranks 1 to 4 in turn and a run that always has it first."""
    paths = []
    for name in ("base", "other"):
        lines = []
        for number in range(num_queries):
            place = 1 + number % 4 if name == "base" else 1
            for rank in range(1, 5):
                passage = "a" if rank == place else f"x{rank}"
                lines.append(f"{number} Q0 {passage} {rank} {-rank} t\n")
        paths.append(folder / name)
        paths[-1].write_text("".join(lines))
    qrels = folder / "qrels"
    qrels.write_text("".join(f"{number} 0 a 1\n" for number in range(num_queries)))
    return [str(path) for path in paths], str(qrels)


def told(capsys, runs, qrels, *options):
    arguments = ["compare", *runs, "--qrels", qrels, "--measures", "RR", *options]
    code, _ = command(arguments)
    assert code == 0
    return capsys.readouterr().out


def test_the_seed_of_the_command_line_reaches_interval_and_test(tmp_path, capsys):
    runs, qrels = files(tmp_path, 40)
    lines = (tmp_path / "other").read_text().splitlines(keepends=True)
    # A few losses, so that neither the interval nor p stands at an end.
    for number in range(0, 40, 4):
        lines[4 * number : 4 * number + 4] = [
            f"{number} Q0 {'a' if rank == 4 else f'x{rank}'} {rank} {-rank} t\n"
            for rank in range(1, 5)
        ]
    (tmp_path / "other").write_text("".join(lines))
    rows = []
    for seed in (1, 2):
        body = json.loads(told(capsys, runs, qrels, "--seed", str(seed), "--json"))
        rows.append(body["comparisons"][1])
    assert rows[0]["difference"]["mean"] == rows[1]["difference"]["mean"]
    assert rows[0]["difference"]["low"] != rows[1]["difference"]["low"]
    assert rows[0]["p_randomisation"] != rows[1]["p_randomisation"]
    expected = compare_files(runs, qrels, seed=2)
    assert rows[1]["difference"]["low"] == expected.difference.low
    assert rows[1]["p_randomisation"] == expected.p_randomisation


def compare_files(runs, qrels, seed):
    from pathlib import Path

    from raypipe.data.qrels import read_qrels
    from raypipe.evaluation.run_files.runs import read_run

    tables = {name: read_run(Path(name)) for name in runs}
    return compare(tables, read_qrels(Path(qrels)), ["RR"], baseline=runs[0], seed=seed).rows[1]


def test_the_command_tells_sign_interval_and_wins_of_the_run_not_of_the_baseline(tmp_path, capsys):
    runs, qrels = files(tmp_path, 4)
    out = told(capsys, runs, qrels)
    # RR of the baseline 1, 1/2, 1/3, 1/4: mean 25/48; the run 1: difference 23/48.
    (line,) = [line for line in out.splitlines() if line.startswith(runs[1] + "  1.0000")]
    assert "+0.4792" in line and " 3/1/0 " in line


def test_60_equal_differences_have_the_smallest_p_there_is():
    # Only the observed pattern and its mirror are as extreme, of 2^60: none is drawn.
    assert randomisation_tests([np.full(60, 0.25)]) == [1 / 100_001]


@pytest.mark.parametrize("count", [10, 16])
def test_up_to_16_differences_every_sign_pattern_is_counted(count):
    deltas = np.ones(count)
    deltas[:3] = -1.0
    plus = count - 3  # extreme: as many or more of one sign
    expected = 2 * sum(comb(count, k) for k in range(plus, count + 1)) / 2**count
    assert randomisation_tests([deltas]) == [pytest.approx(expected, rel=1e-12)]


@pytest.mark.parametrize("plus", [11, 12, 14, 16])
def test_the_drawn_test_is_within_its_own_error_of_the_binomial(plus):
    deltas = np.where(np.arange(20) < plus, 1.0, -1.0)
    expected = 2 * sum(comb(20, k) for k in range(plus, 21)) / 2**20
    (found,) = randomisation_tests([deltas])
    deviation = (expected * (1 - expected) / 100_000) ** 0.5
    assert abs(found - expected) < 4 * deviation


def test_the_drawn_test_is_within_its_own_error_of_all_patterns():
    rng = np.random.default_rng(8)
    deltas = [np.round(rng.normal(mean, 1, 18), 3) for mean in (0.1, 0.6)]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=18)))
    for found, each in zip(randomisation_tests(deltas), deltas, strict=True):
        expected = (np.abs(signs @ each) >= abs(each.sum()) * (1 - 1e-12)).mean()
        assert abs(found - expected) < 4 * (expected * (1 - expected) / 100_000) ** 0.5


def test_differences_of_0_leave_the_drawn_test_as_it_is():
    rng = np.random.default_rng(2)
    deltas = np.concatenate([rng.normal(0.4, 1, 16), np.zeros(30)])
    assert randomisation_tests([deltas]) == [
        pytest.approx(randomisation_tests([deltas[:16]])[0], rel=1e-12)
    ]


def test_a_tie_of_grades_below_1_is_not_mixed(tmp_path):
    path = tmp_path / "run"
    path.write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 2.0 x\n1 Q0 c 3 2.0 x\n1 Q0 d 4 1.0 x\n")
    rows = [("1", "a", -1), ("1", "b", 0), ("1", "d", 1)]
    qrels = pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )
    report = tie_report(path, qrels, ["RR"])
    assert (report.num_rows, report.mixed, report.warning) == (3, 0, "")


@pytest.mark.parametrize("seed", range(8))
def test_sums_that_differ_by_rounding_alone_are_equally_extreme(seed):
    whole = np.random.default_rng(seed).integers(-9, 10, 12).astype(float)
    # Tenths have no exact sums, whole numbers have: the p values must be the same.
    assert randomisation_tests([whole / 10]) == randomisation_tests([whole])
