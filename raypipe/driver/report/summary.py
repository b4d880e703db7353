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
