"""The figures of a rehearsal, and the forecast for another size."""

import json

import pytest
import yaml

from rehearsal.made import Size
from rehearsal.told import FIGURES, factors_of, keep, kept, told
from rehearsal.watched import Watched

STAGES = {
    "lucene": {"do": "index"},
    "embeddings": {"do": "encode"},
    "bm25": {"do": "search"},
    "repbert": {"do": "search"},
    "mono": {"do": "score"},
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "rehearsal.yaml").write_text(yaml.safe_dump({"stages": STAGES}))
    return tmp_path


def summary(folder, **stages):
    body = {
        name: {"seconds": seconds, "rows": rows, "reused": reused}
        for name, (seconds, rows, reused) in stages.items()
    }
    (folder / "workspace" / "summary.json").write_text(json.dumps({"stages": body}))


def test_time_grows_with_passages_with_queries_or_with_both(folder):
    names = ["passages@collection", "tokens@repbert", "lucene", "embeddings", "parts@repbert.dev"]
    names += ["bm25.dev", "repbert.dev", "tokens@repbert.dev"]  # a model's name too
    names += ["embeddings.dev", "mono.dev", "scores@mono.dev", "queries@dev"]
    found = factors_of(
        folder / "rehearsal.yaml", names, Size(100, 10), Size(passages=1000, queries=20)
    )
    of_passages = dict.fromkeys(names[:4], 10.0)
    of_both = {"parts@repbert.dev": 20.0}
    of_queries = dict.fromkeys(names[5:], 2.0)  # of a dense search only the lists are merged
    assert found == of_passages | of_both | of_queries


def test_an_invocation_keeps_what_it_computed_and_a_torn_line_is_left_out(folder):
    summary(folder, lucene=(4.0, 100, False), embeddings=(0.0, 100, True))
    keep(folder, "lucene", Watched(0, 10.0, 8.0, 1 << 20), 5_000)
    with (folder / FIGURES).open("a") as stream:
        stream.write('{"group": "torn')
    summary(folder, lucene=(0.0, 100, True), embeddings=(6.0, 100, False))
    keep(folder, "embeddings", Watched(0, 9.0, 8.0, 1 << 20), 6_000)
    assert [one["stages"] for one in kept(folder)] == [
        {"lucene": {"seconds": 4.0, "rows": 100}},
        {"embeddings": {"seconds": 6.0, "rows": 100}},
    ]


def test_an_invocation_that_left_no_summary_is_kept_too(folder):
    keep(folder, "lucene", Watched(2, 1.0, 1.0, 1 << 20), 0)
    assert [(one["exit_code"], one["stages"]) for one in kept(folder)] == [(2, {})]


def test_tables_add_a_stage_that_was_resumed_and_forecast_the_whole(folder):
    summary(folder, lucene=(4.0, 884_182, False))
    keep(folder, "lucene", Watched(137, 10.0, 8.0, 3 << 20), 5_000_000_000)
    keep(folder, "lucene", Watched(0, 14.0, 8.0, 1 << 20), 6_000_000_000)
    size = Size(passages=884_182, queries=6_980)
    rest = ["embeddings", "bm25", "all"]
    groups = ["lucene", *rest]
    text = told(folder, size, groups)
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()]
    assert ["lucene", "137", "10", "8", "3", "5.00"] in rows
    assert ["lucene", "884,182", "8.0", "110,523", "80"] in rows
    assert text.endswith(f"0.4 minutes so far; not complete: {', '.join(rest)}")
    summary(folder)
    keep(folder, rest[0], Watched(137, 0.0, 0.0, 1 << 20), 0)
    for group in rest[1:]:
        keep(folder, group, Watched(0, 0.0, 0.0, 1 << 20), 0)
    assert told(folder, size, groups).endswith(f"not complete: {rest[0]}")
    keep(folder, rest[0], Watched(0, 0.0, 0.0, 1 << 20), 0)
    text = told(folder, size, groups)
    # 24 s, of which 16 outside of stages, and 8 s ten times: 96 s.
    assert text.endswith(
        "0.4 minutes in all; at 8,841,823 passages and 6,980 queries, 2 by these rates"
    )
