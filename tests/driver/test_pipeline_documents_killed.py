"""Documents on Ray with kills: split, scored and ranked to the bytes of a calm build without it."""

import random

import pytest
import yaml
from killed_jobs import done_here, durable_bytes, killed_until_complete, num_records
from patience import await_ends
from small_documents import WORDS, document, recipe_of, write_documents, write_inputs

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(1800)]

SEED = 20261122
NUM_DOCUMENTS = 90


@pytest.fixture(scope="module")
def recipe(tiny_model, tiny_mono, tmp_path_factory):
    """Documents of 0 to 14 words in passages of three, for twelve queries."""
    folder = tmp_path_factory.mktemp("documents")
    write_inputs(folder)
    write_documents(
        folder / "docs.jsonl", [document(n, (n * 7) % 15) for n in range(NUM_DOCUMENTS)]
    )
    queries = [f"q{n}\t{WORDS[n % 8]} {WORDS[(n * 3 + 1) % 8]}\n" for n in range(1, 13)]
    (folder / "queries.tsv").write_text("".join(queries))
    body = recipe_of(folder, tiny_model, tiny_mono)
    body["resources"] = {"device": "cpu", "threads": 1, "shard_rows": 20, "shard_queries": 2}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return path


@pytest.mark.fault(
    1,
    "documents on 2 workers, a worker killed twice and the driver once: the bytes of a calm build",
)
def test_a_killed_build_of_documents_leaves_the_bytes_of_a_calm_one(recipe, tmp_path):
    calm, out = tmp_path / "calm", tmp_path / "killed"
    done_here(recipe, calm, 2)
    total = num_records(calm)
    kills, seen = killed_until_complete(recipe, out, 2, "wdw", random.Random(SEED), total, {})
    assert len(kills) == 3 and sum(at < total for at in kills) >= 2, "while shards were missing"
    found, expected = durable_bytes(out), durable_bytes(calm)
    runs = [name for name in expected if name.startswith("runs/")]
    assert {name.rpartition("/")[2] for name in runs} >= {"maxp.trec", "kmax.trec", "fused.trec"}
    assert {name: found.get(name) for name in runs} == {name: expected[name] for name in runs}
    assert found == expected
    for store in ("passages@collection", "mono.test", "maxp.test", "again-firstp.test"):
        assert any(name.startswith(f"stores/{store}/") for name in expected), store
    await_ends(seen)
