"""What the page of a workspace shows, and that of a training."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, settings
from raypipe.config.training import Training
from raypipe.errors import InputError
from raypipe.report.finished import Finished
from raypipe.report.first_stages import depth, fusion
from raypipe.report.page import PAGE, Section, Table, Value, write_page
from raypipe.report.queries import queries
from raypipe.report.results import overview
from raypipe.report.tradeoff import chosen, tradeoff
from raypipe.report.training import (
    TrainedFolder,
    dropped,
    made_by_training,
    training,
    training_size,
    trainings_of,
)


def report(finished: Finished) -> Path:
    """The page, and a JSON file for each of its sections; earlier ones are replaced.

    A section for which the recipe has not what it needs, such as a second first stage, is left out.

    Raises:
        InputError: no query set was measured.
    """
    measured = list(finished.summary["measures"])
    if not measured:
        raise InputError(
            f"{finished.workspace.folder}: no query set was measured; add qrels and evaluate to "
            "the recipe, and run it again"
        )
    trainings = trainings_of(finished)
    facts = _facts(finished, trainings)
    sections = [part for query_set in measured for part in _of(finished, query_set, facts)]
    sections += [training(trained, name) for name, trained in trainings.items()]
    foreseen = forecasting(finished.summary)
    sections += [] if foreseen is None else [foreseen]
    sections.append(making(finished))
    made_from = finished.summary.get("made_from", "")
    title = f"raypipe: {finished.recipe.name}"
    return write_page(finished.workspace.folder, title, sections, made_from)


def standing_report(finished: Finished) -> Path:
    """The page as it stands if it shows these results, otherwise one that is made now."""
    path, made_from = finished.workspace.folder / PAGE, finished.summary["made_from"]
    if path.is_file() and f'content="{made_from}"' in path.read_text(errors="replace"):
        return path
    return report(finished)


def report_training(trained: TrainedFolder) -> Path:
    """The page of a training's workspace: its curves, its data and its recipe."""
    recipe = str(trained.summary["recipe"])
    sections = [training(trained, recipe), made_by_training(trained)]
    return write_page(trained.folder, f"raypipe: {recipe}", sections)


def _facts(finished: Finished, trainings: Mapping[str, TrainedFolder]) -> Mapping[str, Value]:
    """What the first screen says of the workspace as a whole."""
    stages = finished.summary["stages"].values()
    quarantined = sum(told["shards"]["quarantined"] for told in stages)
    found: dict[str, Value] = {
        "coverage, the least of a store": min((told["coverage"] for told in stages), default=1.0),
        "rows in quarantine": quarantined,
    }
    for name, trained in trainings.items():
        found[f"the guard of {name} dropped"] = dropped(trained)
    return found


def _of(finished: Finished, query_set: str, facts: Mapping[str, Value]) -> Iterator[Section]:
    """The sections of one query set; of runs of passages, those that the recipe has stages for."""
    if finished.measured(query_set, "documents"):
        yield overview(finished, query_set, "documents", facts=facts)
        yield queries(finished, query_set, unit="documents")
    if not finished.measured(query_set):
        return
    yield overview(finished, query_set, facts=facts)
    yield depth(finished, query_set)
    yield from tradeoff(finished, query_set)
    wanted = finished.recipe.evaluate
    choose_on = None if wanted is None else wanted.choose_on
    if choose_on not in (None, query_set) and finished.measured(choose_on):
        yield from chosen(finished, choose_on, [query_set])
    if (sizes := training_size(finished, query_set)) is not None:
        yield sizes
    if (merged := fusion(finished, query_set)) is not None:
        yield merged
    yield queries(finished, query_set)


def making(finished: Finished) -> Section:
    """The last invocation's stores in the order in which they were made, and its settings."""
    text = (finished.workspace.folder / "recipe.yaml").read_text()
    made_by = versions(finished)
    tables = [
        chain(finished),
        settings_table(finished.recipe),
        Table("Made by", ["what", "is"], [*map(list, made_by.items())]),
    ]
    return Section("making", "", tables, texts={"recipe.yaml": text})


def versions(finished: Finished) -> dict[str, Value]:
    """Versions, device and the numerics classes of the stores."""
    told: dict[str, Value] = {k: str(v) for k, v in finished.summary["versions"].items()}
    told["device"] = finished.summary["device"]
    told["numerics"] = "; ".join(finished.numerics()) or None
    return told


SHOWN = 12
"""Characters of a fingerprint or hash."""
COLUMNS = (
    "what", "name", "made from", "fingerprint", "rows", "copied", "shards", "quarantined",
    "coverage", "seconds",
)  # fmt: skip


def chain(finished: Finished) -> Table:
    """Collection, stores in the order in which they were made, run files, files of measures.

    Rows are those of a store. `seconds` says `reused` of a store that an earlier invocation had
    made, and nothing of a file. The fingerprint of a file is its SHA-256.
    """
    rows = [*_inputs(finished), *_stores(finished), *_files(finished)]
    return Table("From the collection to the measures", COLUMNS, rows)


def _inputs(finished: Finished) -> Iterator[list[Value]]:
    """The collection's files and those of the query sets, as the recipe names them."""
    recipe = finished.recipe
    named: list[tuple[str, str, list[str]]] = []
    named.append(("collection", recipe.collection.format, [*recipe.collection.input]))
    for name, query_set in recipe.queries.items():
        files = [each for each in (query_set.file, query_set.qrels) if each is not None]
        named.append(("queries", name, files))
    for what, name, files in named:
        yield [what, name, ", ".join(map(str, files)) or None, *[None] * (len(COLUMNS) - 3)]


def _stores(finished: Finished) -> Iterator[list[Value]]:
    places = dict(place.split("/") for place in finished.summary["stores"])
    for name, told in finished.summary["stages"].items():
        fingerprint = told["fingerprint"]
        origins = finished.origins(name) if name in places else []
        yield [
            "store",
            name,
            ", ".join(origins) or None,
            fingerprint[:SHOWN],
            told["rows"],
            told["copied"],
            told["shards"]["planned"],
            told["shards"]["quarantined"],
            told["coverage"],
            "reused" if told["reused"] else told["seconds"],
        ]


def _files(finished: Finished) -> Iterator[list[Value]]:
    """The TREC runs, and what was measured of them."""
    hashes, (trec, *_) = finished.summary["files"], finished.recipe.runs.endings
    for query_set, systems in finished.summary["systems"].items():
        for system in systems:
            file = f"runs/{query_set}/{system}.{trec}"
            if file in hashes:
                yield _file("run", file, f"{system}.{query_set}", hashes[file])
        file = f"measures/{query_set}.tsv"
        if file in hashes:
            below = ", ".join(f"runs/{query_set}/{system}.{trec}" for system in systems)
            yield _file("measures", file, below, hashes[file])


def _file(what: str, name: str, made_from: str, sha256: str) -> list[Value]:
    return [what, name, made_from, sha256[:SHOWN], *[None] * (len(COLUMNS) - 4)]


GIVEN, COMMAND = "recipe", "command line"


def settings_table(recipe: Recipe | Training) -> Table:
    """Setting, value, and its source: the command line, the recipe, or what the default is from."""
    overridden = [text.partition("=")[0] for text in recipe.overrides]
    rows: list[list[Value]] = []
    for name, value, source in settings(recipe):
        if name == "overrides":
            continue
        if any(name == key or name.startswith(f"{key}.") for key in overridden):
            source = COMMAND
        rows.append([name, value, source or GIVEN])
    return Table("Settings", ["setting", "value", "source"], rows)


NAMES = {
    "tokens": "tokens that models read",
    "inferences": "inferences of rerankers",
    "bytes": "bytes of stores, without Lucene",
    "lucene_bytes": "bytes of Lucene's index",
    "run_bytes": "bytes of run files",
    "cpu_seconds": "CPU seconds of the workers",
}
FORECAST = ("tokens", "inferences", "bytes", "cpu_seconds")


def forecasting(summary: Mapping[str, Any]) -> Section | None:
    """Forecast and fact in all and by store; None if the last run made no forecast."""
    told = summary.get("forecast")
    if told is None:
        return None
    totals = told["totals"]
    in_all: list[list[Value]] = [
        [NAMES[name], *(totals[side].get(name) for side in ("forecast", "fact")), _percent(off)]
        for name, off in totals["off"].items()
    ]
    columns = ["store"]
    columns += [f"{side} {name}" for name in FORECAST for side in ("forecast", "fact")]
    by_store: list[list[Value]] = [
        [store, *(sides[side][name] for name in FORECAST for side in ("forecast", "fact"))]
        for store, sides in told["stages"].items()
    ]
    tables = [
        Table("In all, what the last run computed", ["what", "forecast", "fact", "off"], in_all),
        Table("By store", columns, by_store),
    ]
    return Section("forecast", "all", tables, (), told["notes"])


def _percent(off: float | None) -> str | None:
    return None if off is None else f"{100 * off:+.1f}%"
