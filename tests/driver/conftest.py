"""Small workspaces that several test files of the driver read."""

import shutil

import pytest
import yaml
from held_recipe import HELD
from mended_inputs import COLLECTION, QRELS, QUERIES, RUN
from quick_java import quick_java  # noqa: F401  (for each test here)
from recipes import invoke as run
from recipes import write_files
from small_invocation import RECIPE as INVOCABLE
from small_workspace import run_small

from raypipe.cli.main import run as run_verb
from raypipe.config.load import load_recipe
from raypipe.driver.proof import texts


@pytest.fixture(scope="session")
def small_workspace(tiny_model, tmp_path_factory):
    """The workspace, and what its invocation returned and said."""
    return run_small(tmp_path_factory.mktemp("small"), tiny_model)


@pytest.fixture
def invocable(tmp_path, tiny_model, tiny_mono):
    """A folder with five passages and three queries, two of them judged; its recipe."""
    passages = ["the zebra", "a lease", "of shards", "rank a query", "run"]
    queries = {"q1": "a zebra", "q2": "the lease", "q3": "run"}
    write_files(tmp_path, passages, queries, judged={"q1": "p0", "q3": "p4"})
    text = INVOCABLE.format(folder=tmp_path, model=tiny_model, mono=tiny_mono)
    return tmp_path, load_recipe(text, source="small")


@pytest.fixture
def fewer_characters(monkeypatch):
    """Proofs ask for each sixteenth of Unicode's characters: all take a third of a proof."""
    every = texts._characters()
    monkeypatch.setattr(texts, "_characters", lambda: every[::16])


@pytest.fixture
def mendable(tmp_path, tiny_model, tiny_mono):
    """A folder with every input of the pipeline that `invoke` runs."""
    folder = tmp_path / "files"
    folder.mkdir()
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    passages = [" ".join(words[(i + j) % len(words)] for j in range(2 + i)) for i in range(9)]
    (folder / COLLECTION).write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(passages)))
    (folder / QUERIES).write_text("q1\tbeta gamma\nq2\ttheta\n")
    (folder / QRELS).write_text("q1 0 p1 1\nq2 0 p7 2\n")
    lines = [f"{q} Q0 p{row} {row + 1} {9 - row} x\n" for q in ("q1", "q2") for row in range(5)]
    (folder / RUN).write_text("".join(lines))
    shutil.copytree(tiny_model, folder / "encoder")
    shutil.copytree(tiny_mono, folder / "mono")
    return folder


@pytest.fixture
def invoke(mendable, tmp_path):
    def go(out="work", *, overrides=(), more=None, **options):
        recipe = {
            "format": 1,
            "name": "mended",
            "collection": {"format": "msmarco-v1", "input": str(mendable / COLLECTION)},
            "queries": {"test": {"file": str(mendable / QUERIES), "qrels": str(mendable / QRELS)}},
            "models": {
                "encoder": {"path": str(mendable / "encoder")},
                "mono": {"path": str(mendable / "mono")},
            },
            "stages": {
                "embeddings": {"do": "encode", "model": "encoder"},
                "dense": {"do": "search", "index": "embeddings", "depth": 5},
                "given": {"do": "read", "runs": {"test": str(mendable / RUN)}},
                "fused": {"do": "fuse", "runs": ["dense", "given"], "method": "rrf"},
                "mono": {"do": "score", "run": "fused", "model": "mono", "k0": 3},
            },
            "evaluate": {"measures": ["nDCG@10"]},
            "resources": {"backend": "inline", "device": "cpu"},
            **(more or {}),
        }
        return run(recipe, tmp_path / out, *overrides, **options).summary

    return go


EXPORTED = """
format: 1
name: exported
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}}}
models: {{minilm: {{path: minilm}}}}
stages:
  lucene: {{do: index}}
  embeddings: {{do: encode, model: minilm}}
  bm25: {{do: search, index: lucene, depth: 100}}
  dense: {{do: search, index: embeddings, depth: 100}}
runs: {{tsv: true}}
resources: {{backend: inline, device: cpu, shard_tokens: 4000}}
"""


@pytest.fixture(scope="session")
def exported(small_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    (folder / "recipe.yaml").write_text(EXPORTED.format(files=small_files))
    done = run_verb(["pipeline", str(folder / "recipe.yaml"), "--out", str(folder / "work")])
    assert done == (0, "complete")
    return folder / "work"


@pytest.fixture
def held(tmp_path):
    """A workspace's recipe, with changes."""

    def made(**changes):
        folder = tmp_path / "held"
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(yaml.safe_dump({**HELD, **changes}, sort_keys=False))
        return folder

    return made
