"""Pages of docs/ that lead a reader from one command to the next, followed as they stand."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml
from growing import write_snapshot

from raypipe.cli.main import run

DOCS = Path(__file__).parents[1] / "docs"
STEP = re.compile(
    r"^```(?P<kind>python|yaml)\n(?P<block>[\s\S]*?)^```$|^    (?P<line>\S.*)$", re.MULTILINE
)
PASSAGES = {
    "csv": "Read a file of comma separated values row by row.",
    "json": "Decode a JSON document into dictionaries and lists.",
    "zip": "Create, read and extract ZIP archives.",
    "log": "Write messages of a program to a log file, by level.",
    "re": "Find patterns of text with regular expressions.",
    "sqlite": "Keep tables in a database that is one file.",
}
QUERIES = {
    "q1": "parse comma separated values",
    "q2": "unpack an archive",
    "q3": "search text for a pattern",
}
QRELS = {"q1": "csv", "q2": "zip", "q3": "re"}


class Step(NamedTuple):
    """One thing that a page tells its reader to do."""

    kind: str
    """python, yaml or line."""
    text: str
    """A block, or a command of the shell without its comment."""
    code: int = 0
    """The exit code that the comment behind a command tells: `# exit 4`."""


def steps_of(page: str, heading: str, until: str = "\n## ") -> list[Step]:
    """The blocks and the indented commands below a heading of a page, in their order."""
    found = []
    text = (DOCS / page).read_text().partition(f"\n## {heading}\n")[2].partition(until)[0]
    for match in STEP.finditer(text):
        if match["kind"]:
            found.append(Step(match["kind"], match["block"]))
            continue
        command, _, comment = match["line"].partition("  # ")
        told = re.search(r"exit (\d+)", comment)
        found.append(Step("line", command.strip(), int(told[1]) if told else 0))
    return found


def follow(folder: Path, *place: str, names: dict[str, object] | None = None) -> list[str]:
    """What each command below a heading printed, after it was done and showed what the page says.

    A YAML block is written to the file that its first line names. `raypipe` and Python blocks run
    in this process, other commands in a shell; names of one Python block stay for the next. A block
    that starts Java runs apart: a Java that runs already looks for files where it was started.
    `names` are those that Python blocks have, and leave.
    """
    names = {} if names is None else names
    printed, before = list[str](), Path.cwd()
    os.chdir(folder)
    try:
        for step in steps_of(*place):
            if step.kind == "yaml":
                name = step.text.splitlines()[0].removeprefix("# ")
                Path(name).write_text(step.text)
            elif step.kind == "python" and "start_jvm" in step.text:
                _apart(step.text)
            elif step.kind == "python":
                _python(step.text, names)
            elif step.text.startswith("raypipe "):
                printed.append(_raypipe(step))
            else:
                subprocess.run(["bash", "-ec", step.text], check=True)
    finally:
        os.chdir(before)
    return printed


def _raypipe(step: Step) -> str:
    words = shlex.split(step.text)[1:]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as told:
        code, _ = run(words)
    assert code == step.code, f"{step.text}: exit {code}\n{told.getvalue()}"
    return out.getvalue()


def _python(code: str, names: dict[str, object]) -> None:
    """Run a block; it prints what the comments behind its prints show."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "the page", "exec"), names)
    assert out.getvalue().splitlines() == _shown(code), code


def _apart(code: str) -> None:
    """The same in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == _shown(code), done.stderr


def _shown(code: str) -> list[str]:
    """What the comments behind the prints say is printed."""
    return re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


def write_tsv(path, texts):
    path.write_text("".join(f"{key}\t{text}\n" for key, text in texts.items()))


@pytest.fixture
def here(tmp_path, inline):
    """A folder with what every page begins with; stages run without Ray, whose start is no step."""
    write_tsv(tmp_path / "passages.tsv", PASSAGES)
    write_tsv(tmp_path / "queries.tsv", QUERIES)
    return tmp_path


@pytest.mark.jvm
@pytest.mark.slow
def test_the_tutorial_is_followed_to_its_end(tmp_path, inline):
    printed = follow(tmp_path, "tutorial.md", "Your files", "\n## Next")
    table = next(text for text in printed if "| fused " in text)
    assert all(f"| {name} " in table for name in ("bm25", "minilm"))
    assert "every file has the bytes that were written" in "\n".join(printed)


@pytest.mark.slow
def test_the_walk_through_nights_is_followed_to_its_end(here):
    printed = follow(here, "reindexing.md", "The first night", "\n## What is computed")
    lines = [line for text in printed for line in text.splitlines()]
    assert any(line.startswith("generation 3 (refused), ") for line in lines)
    (changed,) = {line for line in lines if line.startswith("generation 2, ")}
    assert "7 passages, 1 added, 0 removed, 1 changed, 10 rows copied" in changed
    (back,) = {line for line in lines if line.startswith("generation 6, ")}
    assert back.endswith(", 7 passages, the content of generation 2")
    assert lines[-1] == "every file has the bytes that were written"


@pytest.mark.jvm
@pytest.mark.slow
def test_the_walk_through_snapshots_is_followed_to_its_end(tmp_path, inline):
    write_snapshot(tmp_path / "snapshots/2024-11", [*range(40)], {0: 3, 1: 7, 2: 11})
    write_snapshot(tmp_path / "snapshots/2025-01", [*range(2, 46)], {0: 5, 1: 7, 3: 41})
    printed = follow(tmp_path, "reindexing.md", "A folder of snapshots: LongEval")
    lines = [line for text in printed for line in text.splitlines()]
    generations = [line for line in lines if "passages, snapshot " in line]
    assert "40 passages, snapshot 2024-11" in generations[0]
    assert "44 passages, snapshot 2025-01, 6 added, 2 removed" in generations[1]
    for system in ("bm25", "dense", "fused"):
        row = next(line for line in lines if re.match(rf"\| {system} +\| nDCG@10 +\| 2025", line))
        assert re.search(r"[+-]0\.\d{4}", row)
    packed = tmp_path / "work/leaderboard/submissions/zebras-fused"
    method = yaml.safe_load((packed / "ir-metadata.yml").read_text())["method"]
    assert method["indexing"] == {
        "tokenizer": "Lucene's analyzer for en; that of minilm",
        "stemmer": "Porter",
        "stopwords": "Lucene's English list",
    }
    (retrieval,) = method["retrieval"]
    flags = ("lexical", "deep_neural_model", "dense_neural_model")
    assert all(retrieval[flag] is True for flag in flags)
    assert retrieval["sparse_neural_model"] is retrieval["single_stage_retrieval"] is False
    assert sorted(path.name for path in packed.iterdir()) == [
        "2024-11",
        "2025-01",
        "ir-metadata.yml",
    ]


@pytest.mark.slow
def test_deltas_are_handed_to_lancedb_as_the_page_says(here, monkeypatch):
    """Night by night, and after a rollback; a gap is refused, and the whole begins anew."""
    import lancedb
    import pyarrow.parquet as pq

    def export(*more):
        command = f"raypipe export work/stores/vectors --to parquet {' '.join(more)}"
        _raypipe(Step("line", command))

    def whole(generation):
        export("--generation", generation, "--out", f"whole/{generation}")
        return pq.read_table(here / f"whole/{generation}/embeddings.parquet").to_pylist()

    def rows_in_lance(column="vector", name="embedding"):
        table = lancedb.connect(here / "lance").open_table("passages").to_arrow()
        return by_id(table.select(["id", column]).rename_columns(["passage_id", name]).to_pylist())

    def by_id(rows):
        return sorted(rows, key=lambda row: row["passage_id"])

    names = {}
    follow(here, "reindexing.md", "The first night", "\n## When a night")
    follow(here, "reindexing.md", "Hand over what changed", names=names)
    monkeypatch.chdir(here)
    apply, second = names["apply"], by_id(whole("2"))
    assert rows_in_lance() == second
    texts = {row["passage_id"]: row["text"] for row in rows_in_lance("text", name="text")}
    assert texts["tar"] == "Read and write tar archives, also compressed ones."
    assert texts["csv"] == PASSAGES["csv"] and texts["zip"] != PASSAGES["zip"]
    with pytest.raises(SystemExit, match="deltas/2 follows generation 1; lance has 2"):
        apply("deltas/2", "lance")
    (here / "lance/generation").write_text("1")  # as a consumer that was killed left it
    assert apply("deltas/2", "lance") == 7 and rows_in_lance() == second
    _raypipe(Step("line", "raypipe rollback work --to 1"))
    export("--since", "2", "--out", "deltas/3")
    third = by_id(whole("3"))
    assert apply("deltas/3", "lance") == 6 and rows_in_lance() == third
    export("--since", "0", "--out", "deltas/new")
    assert apply("deltas/new", "lance") == 6 and rows_in_lance() == third


def bare(folder, to, *names):
    """The weights and the tokenizer alone, as `transformers` writes them."""
    to.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", *names):
        shutil.copy(folder / name, to / name)
    return str(to)


@pytest.mark.slow
def test_the_page_for_users_of_sentence_transformers_is_followed_to_its_end(
    here, tiny_model, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from sentence_transformers import CrossEncoder, SentenceTransformer, models

    body = models.Transformer(bare(tiny_model, here / "encoder"), max_seq_length=40)
    pooled = models.Pooling(body.get_word_embedding_dimension())
    theirs = SentenceTransformer(modules=[body, pooled, models.Normalize()], device="cpu")
    theirs.save_pretrained(str(here / "my-encoder"))
    torch.manual_seed(0)  # of the head, which is new
    reranker = CrossEncoder(str(here / "encoder"), num_labels=1, max_length=40, device="cpu")
    reranker.save_pretrained(str(here / "my-reranker"))
    (here / "qrels.txt").write_text("".join(f"{q} 0 {p} 1\n" for q, p in QRELS.items()))
    printed = follow(here, "coming_from.md", "sentence-transformers")
    assert "mean" in printed[0] and any("nDCG@10" in text for text in printed)
    reranked = (here / "work/reranked/runs/queries/score.trec").read_text().splitlines()
    assert len(reranked) == len(PASSAGES) * len(QUERIES)


@pytest.mark.jvm
@pytest.mark.slow
def test_the_page_for_users_of_pyserini_is_followed_to_its_end(here):
    (here / "collection").mkdir()
    lines = [json.dumps({"id": key, "contents": text}) for key, text in PASSAGES.items()]
    (here / "collection" / "docs.jsonl").write_text("\n".join(lines) + "\n")
    shutil.copy(here / "queries.tsv", here / "topics.tsv")
    (here / "qrels.txt").write_text("".join(f"{q} 0 {p} 1\n" for q, p in QRELS.items()))
    run = [(q, p, rank) for q in QUERIES for rank, p in enumerate(PASSAGES, 1)]
    text = "".join(f"{q} Q0 {p} {rank} {10 / rank:.4f} Anserini\n" for q, p, rank in run)
    (here / "run.theirs.txt").write_text(text)
    printed = follow(here, "coming_from.md", "Pyserini")
    evaluated = next(text for text in printed if "recip_rank" in text)
    assert "1.0000" in evaluated, "BM25 finds each answer by its words"
    mono = (here / "work/mono/runs/queries/score.trec").read_text().splitlines()
    assert len(mono) == len(run)
    assert sorted(path.name for path in (here / "faiss").iterdir()) == ["docid", "index"]
    assert (here / "faiss/docid").read_text().split() == list(PASSAGES)
