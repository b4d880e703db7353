import json

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
    (line,) = [line for line in out.splitlines() if line.startswith(runs[1] + "  1.0000")]
    assert "+0.4792" in line and " 3/1/0 " in line
