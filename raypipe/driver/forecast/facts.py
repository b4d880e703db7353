"""A forecast beside what an invocation really took."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raypipe.driver.forecast.forecast import Forecast, totals_of
from raypipe.driver.recipe.watching import StageResult
from raypipe.names import Role, StoreName

Amounts = dict[str, float | None]


def beside_facts(
    forecast: Forecast, results: Mapping[StoreName, StageResult], folder: Path
) -> dict[str, Any]:
    """The entry of summary.json: for each store and in all, the forecast and the fact.

    `off` is (forecast - fact) / fact of the totals, and None where one of them is not known or the
    fact is nothing. Only what this invocation computed is counted, and the run files in its folder.
    """
    lucene = {line.store for line in forecast.lines if line.lucene}
    facts = {str(name): _fact(name, result) for name, result in results.items()}
    told = {
        line.store: {"forecast": line.to_json(), "fact": facts[line.store]}
        for line in forecast.lines
        if line.store in facts and not line.reused
    }
    expected, found = totals_of(forecast), _totals(facts, lucene)
    files = (folder / name for name in forecast.run_files)
    found["run_bytes"] = sum(file.stat().st_size for file in files if file.exists())
    return {
        "stages": told,
        "totals": {
            "forecast": expected,
            "fact": found,
            "off": {name: _off(expected[name], found[name]) for name in expected},
        },
        "rates": {name: rate.to_json() for name, rate in forecast.rates.items()},
        "notes": [*forecast.notes],
    }


def _fact(name: StoreName, result: StageResult) -> dict[str, float]:
    scored = name.role is Role.SCORES
    return {
        "rows": result.num_rows,
        "tokens": result.num_tokens,
        "inferences": result.num_rows_computed - result.num_copied if scored else 0,
        "bytes": result.num_bytes,
        "cpu_seconds": round(result.cpu_seconds, 2),
    }


def _totals(facts: Mapping[str, Mapping[str, float]], lucene: set[str]) -> Amounts:
    found: Amounts = {
        name: sum(fact[name] for fact in facts.values())
        for name in ("tokens", "inferences", "cpu_seconds")
    }
    found["bytes"] = sum(fact["bytes"] for store, fact in facts.items() if store not in lucene)
    found["lucene_bytes"] = sum(fact["bytes"] for store, fact in facts.items() if store in lucene)
    return found


def _off(expected: float | None, found: float | None) -> float | None:
    return None if expected is None or not found else round((expected - found) / found, 4)
