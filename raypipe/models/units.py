"""A reranker's units: what config.json says of them, and how many its settings expect."""

from collections.abc import Mapping
from typing import Any

from raypipe.errors import InputError

HEAD = "ForSequenceClassification"


def is_reranker(config: Mapping[str, Any]) -> bool:
    """Whether config.json's architecture ends in a head for sequences."""
    names = config.get("architectures")
    return isinstance(names, list) and any(str(name).endswith(HEAD) for name in names)


def unit_names(num_units: int) -> dict[str, Any]:
    """The keys of config.json from which transformers knows the number of units."""
    names = {unit: f"LABEL_{unit}" for unit in range(num_units)}
    return {
        "id2label": {str(unit): name for unit, name in names.items()},
        "label2id": {name: unit for unit, name in names.items()},
    }


def expected_units(relevant_label: int | None) -> int:
    """How many units a head has with these settings."""
    return 1 if relevant_label is None else 2


def check_units(num_units: int, relevant_label: int | None) -> None:
    """Returns nothing if a head has the units that the settings expect.

    Raises:
        InputError: it has others.
    """
    expected = expected_units(relevant_label)
    if num_units != expected:
        label = "null" if relevant_label is None else str(relevant_label)
        raise InputError(
            f"the classifier has {num_units} units, the settings (relevant_label: {label}) "
            f"expect {expected}; a head of one unit has relevant_label null, one of two 0 or 1"
        )
