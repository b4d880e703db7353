import json
import re
import subprocess
import sys

import pytest
from ranked_tables import write_trec

from raypipe.cli.main import run as command
from raypipe.evaluation.compare import compare


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
    (line,) = [line for line in out.splitlines() if line.startswith(f"| {runs[1]} | 1.0000")]
    assert "+0.4792" in line and " 3/1/0 " in line


def test_every_line_has_its_cells_and_the_correction_is_over_runs_and_measures(tmp_path, capsys):
    """Of RR the differences are 0, 1/2, 2/3 and 3/4, of P@2 0, 0, 1/2 and 1/2.

    Student's t is 2.853 and the root of 3, with 3 degrees of freedom. 2 of the 8 and of the 4 signs
    of what is not 0 lead so far; Holm's first p is twice its own.
    """
    runs, qrels = files(tmp_path, 4)
    lines = told(capsys, runs, qrels, "--measures", "RR,P@2").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    rows = [[each.strip() for each in row] for row in rows]
    for row in rows[2::3]:
        low, high = re.fullmatch(r"\[\+(0\.\d{4}), \+(0\.\d{4})\]", row.pop(3)).groups()
        assert float(low) < float(row[2]) < float(high)
    header = ["run", "mean", "difference", "95% interval", "wins/ties/losses", "p (t)"]
    header += ["p (randomisation)", "p (Holm)", "unjudged"]
    assert rows == [
        header,
        [runs[0], "0.5208", *["-"] * 6, "0.750"],
        [runs[1], "1.0000", "+0.4792", "3/1/0", "0.0650", "0.2500", "0.5000", "0.750"],
        header,
        [runs[0], "0.2500", *["-"] * 6, "0.750"],
        [runs[1], "0.5000", "+0.2500", "2/2/0", "0.1817", "0.5000", "0.5000", "0.500"],
    ]
    assert (lines[0], lines[7]) == ("RR (n=4)", "P@2 (n=4)")
    assert f"Differences to {runs[0]}. Holm's correction covers the 2 comparisons" in lines[-1]


def test_the_values_of_every_query_are_written_to_a_new_file(tmp_path, capsys):
    runs, qrels = files(tmp_path, 2)
    base, other = runs
    path = tmp_path / "values.tsv"
    options = ("--measures", "RR P@1", "--baseline", other, "--per-query", str(path))
    out = told(capsys, runs, qrels, *options)
    assert f"| {base}  | 0.7500 | -0.2500 " in out and f"| {other} | 1.0000 | -  " in out
    assert f"Differences to {other}. " in out
    # The baseline named has `a` first, the other run of query 1 has it second.
    lines = [
        "query_id\tmeasure\trun\tvalue\tdifference",
        *(
            f"{query}\tRR\t{base}\t{value}"
            for query, value in (("0", "1.0\t0.0"), ("1", "0.5\t-0.5"))
        ),
        *(f"{query}\tRR\t{other}\t1.0\t0.0" for query in "01"),
        *(
            f"{query}\tP@1\t{base}\t{value}"
            for query, value in (("0", "1.0\t0.0"), ("1", "0.0\t-1.0"))
        ),
        *(f"{query}\tP@1\t{other}\t1.0\t0.0" for query in "01"),
    ]
    assert path.read_text() == "\n".join([*lines, ""])
    path.write_text("mine")
    assert command(["compare", *runs, "--qrels", qrels, *options])[0] == 2
    assert f"--per-query {path}: it exists; name a new file" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        ("base", ["expected two runs or more, the baseline first"]),
        ("base none", ["none: no such file"]),
        ("base other base other", ["base: given twice", "other: given twice"]),
        (
            "base none --baseline qrels --per-query base",
            [
                "none: no such file",
                "--baseline qrels: expected one of the runs",
                "--per-query base: it exists; name a new file",
            ],
        ),
        (
            "none --baseline base",
            [
                "none: no such file",
                "expected two runs or more, the baseline first",
                "--baseline base: expected one of the runs",
            ],
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_with_every_problem(
    tmp_path, capsys, monkeypatch, words, problems
):
    files(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    assert command(["compare", *words.split(), "--qrels", "qrels"])[0] == 2
    out, err = capsys.readouterr()
    assert out == "" and sorted(err.splitlines()) == sorted(f"error: {each}" for each in problems)


@pytest.mark.slow
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
    assert "have the score of another line" in done.stderr
    body = json.loads(done.stdout.splitlines()[-2])
    assert body["family"] == 2 and len(body["comparisons"]) == 4
    lines = (tmp_path / "qrels.tsv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 2
    assert f"2\tRR@10\t{two}\t1.0\t1.0" in lines
