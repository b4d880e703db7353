"""Mutants that atheris chooses by the lines they reach are read or refused in words, by hand."""

import subprocess
import sys
from pathlib import Path

import pytest
from training_text import RECIPE

from raypipe.storage.records import Manifest, Record, Shard

pytest.importorskip("atheris", reason="pip install atheris, which is in no extra of raypipe")
MUTANTS = 5_000
SEEDS = {
    "run": b"q1 Q0 p1 1 9.5 t\nq1 Q0 p2 2 8 t\n2 Q0 p1 1 -1e-3 t\n",
    "collection": b'{"_id": "a", "title": "T", "text": "first"}\n{"_id": 7, "text": "x"}\n',
    "queries": b'{"_id": "a", "text": "one"}\n{"qid": 7, "text": "two"}\n',
    "qrels": b"1 0 p1 1\n1 0 p2 0\n2 0 p1 -2\n",
    "triples": b"one\ta text\tb text\ntwo\tb text\tc\n",
    "pipeline": b"format: 1\nname: tiny\ncollection: {format: beir, input: a}\nstages: {}\n",
    "training": RECIPE.encode(),
    "manifest": Manifest("a", "b", (Record(Shard(0, 0, 2), "c", 9, {}),), ("one",)).to_bytes(),
    "log": b'{"event": "published", "seconds": 1.5}\n{"event": "x"}\n',
    "metadata": b'{"team": "t", "type": "reranking"}',
    "settings": b'{"kind": "mono", "query_limit": null, "total_limit": 16, "score": "raw"}',
}


@pytest.mark.long
@pytest.mark.parametrize("parser", SEEDS)
def test_what_reaches_new_lines_of_a_parser_brings_it_down_nowhere(parser, tmp_path):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "whole").write_bytes(SEEDS[parser])
    script = Path(__file__).parent.parent / "helpers" / "guided.py"
    options = [
        f"-atheris_runs={MUTANTS}",
        "-max_len=4096",
        "-len_control=0",
        "-timeout=5",
        "-rss_limit_mb=2048",
    ]
    command = [sys.executable, str(script), parser, str(tmp_path / "seeds"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    # Not the exit status: the alarm for a slow mutant may still end the process after the last one.
    assert f"Done {MUTANTS}" in done.stderr, done.stderr[-4000:]
    found = [
        path.name for kind in ("crash", "timeout", "oom") for path in tmp_path.glob(f"{kind}-*")
    ]
    assert found == []
