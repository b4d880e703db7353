"""BM25 on real collections: what plain BM25 gives is reached, tuning stays on its own queries."""

import json

import pytest
from quick_java import quick_java  # noqa: F401  (for each test here)

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.mark.long
def test_nfcorpus_bm25_reaches_its_floor_and_tunes_on_dev_only(nfcorpus, raypipe_cli, raypipe_data):
    out = nfcorpus
    tuned = raypipe_cli(
        *("pipeline", "nfcorpus", "--out", out, "--until", "bm25-tuned", "--json"),
        "resources.backend=inline",
        RAYPIPE_DATA=str(raypipe_data),
    )
    assert tuned.returncode == 0, tuned.stderr
    summary = json.loads(tuned.stdout)
    assert summary["stages"]["passages@collection"]["rows"] == 3633
    assert summary["stages"]["queries@test"]["rows"] == 323
    assert list(summary["measures"]) == ["test"]
    table = (out / "table.md").read_text()
    assert "nDCG@10 (n=323)" in table
    assert summary["measures"]["test"]["bm25-tuned"]["nDCG@10"] > 0.30
    grid = [p for p in (out / "stores" / "tune@bm25-tuned").glob("*/manifest.json")]
    assert len(grid) == 1


def test_dl21_bm25_reaches_its_floor(raypipe_cli, raypipe_data, tmp_path):
    done = raypipe_cli(
        *("pipeline", "msmarco-v2-dl21", "--out", tmp_path / "dl", "--until", "bm25", "--json"),
        "resources.backend=inline",
        RAYPIPE_DATA=str(raypipe_data),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["stages"]["passages@collection"]["rows"] == 33184
    assert summary["measures"]["dl21"]["bm25"]["nDCG@10"] > 0.40
    assert (tmp_path / "dl" / "runs" / "dl22" / "bm25.trec").exists()
    assert list(summary["measures"]) == ["dl21"]
