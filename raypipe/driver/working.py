"""What work on a recipe's stores asks of a machine: a backend, shards that fit it, the basis."""

from collections.abc import Callable, Mapping

from raypipe.config import Recipe
from raypipe.config.parts import Resources
from raypipe.driver.devices import Devices
from raypipe.driver.place import WorkPlace, devices_at
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.stores import Stores
from raypipe.errors import RaypipeError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.stage import Needs, Sizing

SHARD_TOKENS = {"cpu": 60_000, "cuda": 4_000_000}
"""About 10 s of MiniLM on one core, so that progress is visible; about 4M tokens on a GPU."""


def devices_for(
    place: WorkPlace,
    wanted: Resources,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> Devices:
    """The devices that the recipe asks for; see `devices_at`, which raises InputError."""
    return devices_at(
        place,
        wanted.device,
        should_stop=should_stop,
        precision=wanted.precision,
        gpus=wanted.gpus,
        actors=wanted.actors,
        threads=wanted.threads,
    )


def basis_at(
    recipe: Recipe,
    stores: Stores,
    chosen: Devices,
    sources: Mapping[str, str],
    models: Mapping[str, ModelFolder] | None = None,
) -> Basis:
    """The recipe's stores, as these devices compute them; the rest is as Basis has it."""
    budget = recipe.resources.budget_tokens
    return Basis(
        recipe,
        stores,
        needs=Needs(num_gpus=1.0 if chosen.device == "cuda" else 0.0, threads=chosen.threads),
        budget_tokens=budget if isinstance(budget, int) else None,
        models=models or {},
        sources=sources,
    )


def sizing_of(wanted: Resources, chosen: Devices) -> Sizing:
    """The sizes of shards that the recipe asks for, or those of the device."""
    tokens = wanted.shard_tokens
    return Sizing(
        num_actors=chosen.num_actors,
        shard_tokens=tokens if isinstance(tokens, int) else SHARD_TOKENS[chosen.device],
        shard_rows=wanted.shard_rows,
        shard_queries=wanted.shard_queries,
    )
