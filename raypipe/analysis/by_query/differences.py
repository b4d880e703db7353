"""Differences by query, sorted: how many queries a system gains and loses, and how much."""

from collections.abc import Mapping

MOST_POINTS = 400
"""Of a line; a picture shows no more."""


def sorted_differences(
    values: Mapping[str, float], baseline: Mapping[str, float], *, most: int = MOST_POINTS
) -> list[tuple[float, float]]:
    """(place from 1, `values` minus `baseline`) of each query, the largest difference first.

    Of places with the same difference only the first and the last are kept, which draw the same
    line; of more than `most` points that are left, as many at even distances, with both ends.
    """
    found = sorted((value - baseline[query] for query, value in values.items()), reverse=True)
    kept = [
        (float(place + 1), difference)
        for place, difference in enumerate(found)
        if place in (0, len(found) - 1) or not found[place - 1] == difference == found[place + 1]
    ]
    if len(kept) <= most:
        return kept
    step = (len(kept) - 1) / (most - 1)
    return [kept[round(number * step)] for number in range(most)]
