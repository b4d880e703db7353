"""What summary.json says of a complete invocation."""

import platform
from collections.abc import Mapping
from typing import Any

from raypipe.driver.machine import devices
from raypipe.driver.recipe.watching import StageResult
from raypipe.driver.report.measure import Measurement
from raypipe.names import StoreName
from raypipe.package import VERSION


def summary_of(
    measurement: Measurement, results: Mapping[StoreName, StageResult], chosen: devices.Devices
) -> dict[str, Any]:
    """The entries for systems, measures, notes, stages, device and versions."""
    return {
        "systems": measurement.systems,
        "measures": measurement.means,
        "notes": measurement.notes,
        "stages": {
            str(store): {
                "seconds": round(result.seconds, 2),
                "rows": result.num_rows,
                "copied": result.num_copied,
                "shards": {
                    "planned": result.num_shards,
                    "reused": result.num_shards_reused,
                    "quarantined": result.num_quarantined,
                },
                "coverage": result.coverage,
                "reused": result.reused,
                "fingerprint": result.fingerprint,
                **second_pass_of(result),
            }
            for store, result in results.items()
        },
        "device": chosen.line().removeprefix("device: "),
        "versions": {
            "raypipe": VERSION,
            "python": platform.python_version(),
            "torch": chosen.torch,
        },
    }


def second_pass_of(result: StageResult) -> dict[str, Any]:
    """Of exact search, how many of the queries that were searched needed the second pass.

    A query counts once for each span of embeddings. Of a store that several invocations computed,
    these are the shards of the last one.
    """
    if not result.num_searched:
        return {}
    share = round(result.num_repeated / result.num_searched, 6)
    told = {"searched": result.num_searched, "queries": result.num_repeated, "share": share}
    return {"second_pass": told}
