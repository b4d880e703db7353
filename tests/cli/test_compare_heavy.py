import json
import subprocess
import sys

from ranked_tables import write_trec


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
