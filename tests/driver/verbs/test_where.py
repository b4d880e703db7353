"""The estimate by which a command of one stage stays in this process."""

import pytest

from raypipe.driver.verbs.single_stage import recipe_of
from raypipe.driver.verbs.where import seconds_of, where

PASSAGE, QUERY = "p{:06}\t" + "a" * 91 + "\n", "q{:06}\t" + "b" * 41 + "\n"
"""100 and 50 bytes."""


@pytest.fixture
def work(tmp_path):
    """The estimate of a recipe over so many passages and queries, in seconds."""

    def of(passages, queries, stages, models=()):
        for name, line, number in (("p", PASSAGE, passages), ("q", QUERY, queries)):
            (tmp_path / f"{name}.tsv").write_text("".join(map(line.format, range(number))))
        keys = {
            "collection": {"format": "msmarco-v1", "input": str(tmp_path / "p.tsv")},
            "queries": {"all": {"file": str(tmp_path / "q.tsv")}},
            "models": {name: {"path": name} for name in models},
        }
        return recipe_of({**keys, "stages": stages})

    return of


def test_each_part_of_the_work_adds_its_time(work):
    lucene = {"lucene": {"do": "index"}}
    search = lucene | {"bm25": {"do": "search", "index": "lucene"}}
    vectors = {"vectors": {"do": "encode", "model": "minilm"}}
    # 1 MB: prepared at 5 MB/s, then split or indexed at 1 MB/s; 0.02 s a query.
    assert seconds_of(work(10_000, 1, lucene)) == pytest.approx(0.2 + 0.02 + 1, rel=0.05)
    few, many = (seconds_of(work(10_000, number, search)) for number in (1000, 2000))
    # 1,536 bytes a passage, read at 200 MB/s, and as often again for each 100 queries.
    assert few == pytest.approx(0.2 + 20 + 0.0768 * 11, rel=0.05)
    assert many - few == pytest.approx(20 + 0.0768 * 10, rel=0.05)
    # Files of no line count as one record; reading them says what is wrong with them.
    assert seconds_of(work(0, 0, search)) == pytest.approx(0.02, rel=0.05)
    # A third of a million tokens times MiniLM's 90 MB of weights, at 300 GB a second.
    encoded = seconds_of(work(10_000, 1, vectors, ["minilm"]))
    assert encoded == pytest.approx(0.2 + 0.02 + 1 + 1e6 / 3 * 90.9e6 / 3e11, rel=0.05)


def test_long_work_goes_to_ray_and_short_work_stays(work, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    search = {"lucene": {"do": "index"}, "bm25": {"do": "search", "index": "lucene"}}
    assert where(work(1000, 100, search), inline=False, ray=False)[0]
    assert not where(work(1000, 4000, search), inline=False, ray=False)[0]
