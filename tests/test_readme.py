"""Commands of the README and two pages exist as shown; CI runs the two that install."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from raypipe.cli.main import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CLUSTER = (ROOT / "docs" / "cluster.md").read_text()
PAGE = (ROOT / "docs" / "commands.md").read_text()
TRAIN = (ROOT / "docs" / "training.md").read_text().partition("\n## ")[0]


def commands_of(text):
    """Its indented lines that begin with a program, in order."""
    return re.findall(r"^    ((?:python3\.11|raypipe|ray|export|sed|pip) .*)$", text, re.MULTILINE)


RERANK = PAGE.split("\n## Rerank a run\n")[1].split("\n## ")[0]
COMMANDS = [each for text in (README, CLUSTER, RERANK, TRAIN) for each in commands_of(text)]


def verb_of(command):
    """The verb, with its second word where it has one."""
    words = shlex.split(command)[1:]
    return tuple(words[: 2 if words[0] in ("leaderboard", "model") else 1])


VERBS = sorted({verb_of(c) for c in COMMANDS if c.startswith("raypipe ")})


def test_the_two_commands_install_and_run_and_install_and_test():
    section = README.split("## Two commands\n")[1].split("\n## ")[0]
    installs = [c for c in COMMANDS if c.startswith("python3.11")]
    assert installs == commands_of(section), "where .ci/run reads them"
    assert installs == [
        "python3.11 -m venv .venv && .venv/bin/pip install . && .venv/bin/raypipe quickstart",
        "python3.11 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/python -m pytest",
    ]


@pytest.fixture(scope="module")
def helps():
    """Each verb shown -> what its `--help` says."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        for verb in VERBS:
            with redirect_stdout(StringIO()) as told:
                found[verb] = run([*verb, "--help"])[0], told.getvalue()
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shown_is_there(helps, verb):
    code, told = helps[verb]
    assert code == 0 and "Usage" in told


def test_every_option_shown_is_there(helps):
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] != "raypipe":
            continue
        _, told = helps[verb_of(command)]
        for word in words[2:]:
            assert not word.startswith("--") or word in told, f"{command}: {word}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, of its packages that raypipe does not use
def test_every_command_of_ray_is_taken_by_this_ray():
    """Its own parser: subcommand, options and number of arguments; nothing is run."""
    from ray.scripts.scripts import cli

    shown = [shlex.split(c)[1:] for c in COMMANDS if c.startswith("ray ")]
    assert {words[0] for words in shown} >= {"up", "dashboard", "exec", "rsync-down", "down"}
    for words in shown:
        command, context = cli, None
        while hasattr(command, "commands"):
            name, *words = words
            command = command.commands[name]
        context = command.make_context(name, list(words))
        for value in context.params.values():
            assert (
                not (isinstance(value, str) and value.endswith("cluster.yaml"))
                or (ROOT / value).is_file()
            )


def test_the_commands_that_fill_in_cluster_yaml_leave_no_name_to_fill_in(tmp_path):
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    shutil.copy(ROOT / "cluster.yaml", tmp_path)
    (sed,) = [c for c in COMMANDS if c.startswith("sed ")]
    subprocess.run(sed, shell=True, check=True, cwd=tmp_path)
    filled = yaml.safe_load((tmp_path / "cluster.yaml").read_text())
    assert not re.search(
        r"\b(BUCKET|SECURITY_GROUP|AMI)\b", (tmp_path / "cluster.yaml").read_text()
    )
    validate_config(prepare_config(filled))
    (submit,) = [c for c in COMMANDS if c.startswith("ray job submit") and "s3://" in c]
    (bucket,) = re.findall(r"stores=s3://([^/]+)/", submit)
    assert any(f"s3://{bucket}/inputs" in c for c in filled["initialization_commands"])


def shown(start, among=COMMANDS):
    """The commands that begin so, for this interpreter."""
    found = [c for c in among if c.startswith(start)]
    assert found, start
    return [[sys.executable, "-m", *shlex.split(command)] for command in found]


def run_in(folder, command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


@pytest.fixture
def here(tmp_path, monkeypatch, raypipe_here):
    """A function that runs a shown command in this process, in the test's folder.

    A process of its own imports for seconds what this one has.
    """
    monkeypatch.chdir(tmp_path)
    return lambda command: raypipe_here(*command[3:])


def test_the_files_to_hand_in_are_refused_whole_where_a_rule_is_broken(
    tmp_path, monkeypatch, raypipe_here
):
    """The command of docs/cluster.md on runs of one query: too few queries, nothing written."""
    import json

    import pyarrow as pa
    import yaml

    from raypipe import schema
    from raypipe.config.load import recipe_text
    from raypipe.evaluation.exports import write_msmarco

    recipe = yaml.safe_load(recipe_text("msmarco-passage"))
    assert "fused" in recipe["stages"] and set(recipe["queries"]) == {"dev", "eval"}
    rows = [{"query_id": "3", "passage_id": "7", "rank": 1, "score": 2.0}]
    for queries in ("dev", "eval"):
        folder = tmp_path / "msmarco" / "runs" / queries
        folder.mkdir(parents=True)
        write_msmarco(pa.Table.from_pylist(rows, schema.RUN_FILE), folder / "fused.tsv")
    metadata = {"team": "a", "model_description": "b", "paper": "", "code": "", "type": "reranking"}
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    (command,) = (each[3:] for each in shown("raypipe leaderboard pack", commands_of(CLUSTER)))
    monkeypatch.chdir(tmp_path)
    done = raypipe_here(*command)
    assert done.returncode == 2
    for side, size in (("dev", "6,980"), ("eval", "6,837")):
        assert f"{side}: query set: expected {size} ({side}) queries; found 1" in done.stderr
        assert f"{side}: rows: 1 queries have fewer than 1,000 rows" in done.stderr
    assert not (tmp_path / "msmarco" / "leaderboard").exists()
    done = raypipe_here(*command, "--task", "local")
    assert done.returncode == 0, done.stderr
    written = sorted((tmp_path / "msmarco/leaderboard/submissions/20261121-fused").iterdir())
    assert [path.name for path in written] == ["dev.txt.bz2", "eval.txt.bz2"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_run_is_reranked_and_checked_as_shown(small_files, tiny_mono, tiny_duo, tmp_path, here):
    """The page's lines one after the other, in a folder that has what they name."""
    import gzip
    import json

    ids = {}
    lines = [x.split("\t", 1) for x in (small_files / "passages.tsv").read_text().splitlines()]
    texts = []
    for number, (passage, text) in enumerate(lines):
        ids[passage] = f"msmarco_passage_01_{number}"
        texts.append(f"{ids[passage]}\t{text}\n")
    with gzip.open(tmp_path / "collection.tsv.gz", "wt") as out:
        out.writelines(texts)
    queries = (small_files / "queries.test.tsv").read_text().splitlines(keepends=True)[:5]
    (tmp_path / "queries.tsv").write_text("".join(queries))
    with gzip.open(tmp_path / "bm25.trec.gz", "wt") as out:
        for query in queries:
            names = [f"msmarco_passage_01_{n * 3}" for n in range(20)]
            out.writelines(
                f"{query.split()[0]} Q0 {name} {rank} {-rank} x\n"
                for rank, name in enumerate(names, 1)
            )
    (tmp_path / "qrels.txt").write_text(f"{queries[0].split()[0]} 0 msmarco_passage_01_6 1\n")
    (tmp_path / "models").mkdir()
    shutil.copytree(tiny_mono, tmp_path / "models" / "monobert")
    shutil.copytree(tiny_duo, tmp_path / "models" / "duobert")
    commands = shown("raypipe", commands_of(RERANK))
    assert len(commands) == 5
    told = {}
    for command in commands:
        done = here(command)
        assert done.returncode == 0, done.stderr
        told[command[3]] = done.stdout
    scores = pq.read_table(tmp_path / "scores" / "scores.parquet")
    assert scores.num_rows == 5 * 20 and scores.column_names[:2] == ["query_id", "passage_id"]
    trec = (tmp_path / "work/mono/runs/queries/score.trec").read_text().splitlines()
    assert {line.split()[2] for line in trec} == {*scores["passage_id"].to_pylist()}
    mono = json.loads((tmp_path / "work/mono/summary.json").read_text())
    assert mono["stages"]["pieces@score.queries"]["rows"] == 20
    assert "ok     scores" in told["leaderboard"]
    duo = json.loads((tmp_path / "work/duo/summary.json").read_text())
    assert duo["stages"]["scores@score.queries"]["rows"] == 5 * 10 * 9


def test_the_wheel_lands_where_the_nodes_take_it_from():
    import yaml

    cluster = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    (pip,) = [shlex.split(c) for c in COMMANDS if c.startswith("pip wheel ")]
    assert pip[pip.index("--wheel-dir") + 1] == cluster["file_mounts"]["/home/ray/wheels"]
    told = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--help"], capture_output=True, text=True
    ).stdout
    assert all(word in told for word in pip if word.startswith("--"))


@pytest.mark.jvm
@pytest.mark.ray
@pytest.mark.slow
def test_the_recipe_as_shown_runs_resumes_is_published_and_checked(small_files, tmp_path, here):
    """The README's lines on its own collection one after the other, in a folder with its files.

    The first pipeline is a process of its own.
    """
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    queries = (small_files / "queries.test.tsv").read_text().splitlines(keepends=True)[:10]
    (tmp_path / "queries.tsv").write_text("".join(queries))
    lines = [x.split("\t", 1) for x in (small_files / "passages.tsv").read_text().splitlines()]
    ids = {passage: f"msmarco_passage_01_{number}" for number, (passage, _) in enumerate(lines)}
    passages = "".join(f"{ids[passage]}\t{text}\n" for passage, text in lines)
    (tmp_path / "passages.tsv").write_text(passages)
    judged = [line.split() for line in (small_files / "qrels.test.txt").read_text().splitlines()]
    of_set = {line.split("\t")[0] for line in queries}
    qrels = "".join(
        f"{query} 0 {ids[passage]} {grade}\n"
        for query, _, passage, grade in judged
        if query in of_set
    )
    (tmp_path / "qrels.txt").write_text(qrels)
    (init,) = shown("raypipe init")
    assert here(init).returncode == 0
    written = (tmp_path / "my-recipe.yaml").read_text().partition("\n")[2]
    written = re.sub(r"^  # .*\n", "", written, flags=re.MULTILINE)
    assert re.sub(r"# [\d,]+ queries.*", "", written) == re.sub(r"# [\d,]+ queries.*", "", recipe)
    first, second = shown("raypipe pipeline", commands_of(README))
    done = run_in(tmp_path, first)
    assert done.returncode == 0, done.stderr
    done = here(second)
    assert done.returncode == 0, done.stderr
    assert "fused.queries: params.weights [1.0,3.0] -> [1.0,2.0]" in done.stderr
    for name in ("table.md", "runs/queries/fused.trec", "measures/queries.tsv"):
        assert (tmp_path / "work" / name).is_file()
    (reindex,) = shown("raypipe reindex")
    frozen = here(reindex)
    assert frozen.returncode == 4
    assert "params.weights [1.0,2.0] -> [1.0,3.0]" in frozen.stderr
    night = here([word for word in reindex if word != "--frozen"])
    assert night.returncode == 0, night.stderr
    assert night.stdout.splitlines()[-1].startswith("generation 1, ")
    whole = (tmp_path / "work/runs/queries/fused.trec").read_text().splitlines()
    (cut,), (check,), (pack,) = (
        shown(f"raypipe {verb}", commands_of(README))
        for verb in ("fuse", "leaderboard check", "leaderboard pack")
    )
    too_deep = here([*check[:-3], "work/runs/queries/fused.trec", *check[-2:]])
    assert too_deep.returncode == 2 and "depth: 10 queries have more than 100" in too_deep.stderr
    for command in (cut, check, pack):
        done = here(command)
        assert done.returncode == 0, done.stderr
    packed = (tmp_path / "work/leaderboard/submissions/mine/eval.trec").read_text().splitlines()
    expected = [line.split()[:5] for line in whole if int(line.split()[3]) <= 100]
    assert [line.split()[:5] for line in packed] == expected


def test_folders_of_the_tree_exist_and_are_all_there():
    shown = set(re.findall(r"^    (raypipe/\w+)/", README, re.MULTILINE))
    here = {f"raypipe/{p.name}" for p in (ROOT / "raypipe").iterdir() if p.is_dir()}
    assert shown == {name for name in here if "__pycache__" not in name and "recipes" not in name}
