"""Which tensors an adapter and its base lack together; nothing that a model needs is drawn."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from raypipe.models.family import family_of

PEFT = "base_model.model."
"""The prefix of tensor names in peft."""
HALVES = (".lora_A.weight", ".lora_B.weight")
"""The two parts of a low-rank update."""


def missing_tensors(
    base: Iterable[str], adapter: Iterable[str], config: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """(what the base lacks, what the adapter lacks), saved names with a head, each sorted.

    The base has every tensor of the body and the pooler, unless the adapter holds them whole. The
    adapter has the classifier, and both parts of each update.

    Args:
        base: the names in the base model's file.
        adapter: the names in the adapter's file, as peft writes them.
        config: the base model's config.json.
    """
    files = family_of(config).files
    own = {name.removeprefix(PEFT) for name in adapter}
    expected = {
        files.saved_name(name, head=True) for name in files.expected_shapes(config, num_labels=1)
    }
    held = set(files.trained_names(list(base), head=True).values())
    of_base = sorted(expected - held - own - set(files.HEADS))
    of_adapter = {name for name in files.HEADS if name not in own}
    for half, other in (HALVES, HALVES[::-1]):
        layers = {name.removesuffix(half) for name in own if name.endswith(half)}
        of_adapter |= {layer + other for layer in layers if layer + other not in own}
    return of_base, sorted(of_adapter)


def missing_problems(
    missing: tuple[list[str], list[str]], base: Path | str, adapter: Path
) -> list[str]:
    """One problem for each missing tensor; empty if there is none."""
    of_base, of_adapter = missing
    remedy = f"the adapter {adapter} has none either; name a base that holds it"
    return [
        *(f"{base}: the checkpoint lacks the tensor {name}, and {remedy}" for name in of_base),
        *(
            f"{adapter}: the adapter lacks the tensor {name}; save it again with that tensor"
            for name in of_adapter
        ),
    ]
