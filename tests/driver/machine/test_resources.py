"""The recipe's resources on a machine: shards, actors and GPUs."""

from types import SimpleNamespace

import pytest

from raypipe.config.load import load_recipe
from raypipe.driver.devices import Devices
from raypipe.driver.place import sizing_of
from raypipe.driver.recipe.graph import graph_at

RECIPE = """
format: 1
name: small
collection: {format: msmarco-v1, input: /c/passages.tsv}
queries: {dev: {file: /c/q.tsv}}
models: {tiny: {path: /m/tiny}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors, depth: 2}
"""


def test_resources_become_shards_and_actors():
    chosen = SimpleNamespace(num_actors=3, device="cuda", threads=2)
    sizing = sizing_of(load_recipe(RECIPE, source="x").resources, chosen)
    assert (sizing.num_actors, sizing.shard_tokens) == (3, 4_000_000)
    chosen.device = "cpu"
    given = ["resources.shard_tokens=7", "resources.shard_rows=8", "resources.shard_queries=9"]
    sizing = sizing_of(load_recipe(RECIPE, source="x").resources, chosen)
    assert sizing.shard_tokens == 60_000
    sizing = sizing_of(load_recipe(RECIPE, overrides=given, source="x").resources, chosen)
    assert (sizing.shard_tokens, sizing.shard_rows, sizing.shard_queries) == (7, 8, 9)


def test_a_gpu_is_needed_where_the_devices_are_gpus():
    recipe = load_recipe(RECIPE, overrides=["resources.budget_tokens=77"], source="x")
    for device, gpus in (("cuda", 1.0), ("cpu", 0.0)):
        graph = graph_at(recipe, None, chosen(device, threads=2), {"a": "b"})
        assert (graph.needs.num_gpus, graph.needs.threads) == (gpus, 2)
        assert (graph.budget_tokens, graph.sources) == (77, {"a": "b"})
    assert graph_at(load_recipe(RECIPE, source="x"), None, chosen(), {}).budget_tokens is None


@pytest.mark.parametrize("num_gpus", [1, 2, 4])
def test_actors_share_the_gpus_evenly_and_all_have_room(num_gpus):
    shares = {n: chosen("cuda", num_gpus, n).needs.num_gpus for n in range(1, 30)}
    assert all(shares[n] == 1 for n in range(1, num_gpus + 1)), "no GPU has two while one has none"
    assert [shares[num_gpus + 1], shares[2 * num_gpus]] == [0.5, 0.5]
    for num_actors, share in shares.items():
        room_on_each = int(1 / round(share, 4))  # Ray counts in ten thousandths
        assert num_gpus * room_on_each >= num_actors
        assert room_on_each <= -(-num_actors // num_gpus), "no more than the others"


def chosen(device="cpu", num_gpus=0, num_actors=1, threads=1):
    gpus = num_gpus or int(device == "cuda")
    return Devices(device, gpus, "", gpus, num_actors, threads, "2.13")
