"""Looks into the inputs of all steps before the first one runs: the last may come days later."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from raypipe.config import Collection, Recipe, Training
from raypipe.config.parts import PACKAGED_MODELS
from raypipe.config.phases import PhasedTraining, trainings_of
from raypipe.config.stages import DuoScore, Encode, MonoScore, Read
from raypipe.data.files.compression import open_binary
from raypipe.data.files.records import lines
from raypipe.data.files.split import LINES
from raypipe.data.formats.registry import get_format
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.reproduce.plan import Planned
from raypipe.driver.reproduce.wants import Wanted
from raypipe.driver.training.place import start_model
from raypipe.errors import InputError
from raypipe.evaluation.run_files.lines import sniff
from raypipe.evaluation.run_files.parquet import is_parquet
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.model_folder import ModelFolder

FIRST_RECORDS = 10
"""Of a collection: a file of another format is told from its first lines."""


def wrong_inputs(planned: Iterable[Planned], wanted: Iterable[Wanted]) -> list[str]:
    """The problems of inputs that are there but not what the recipes need, with their steps.

    Queries and judgements are read whole, collections, runs and triples by their first lines, and
    of model folders all files. What an earlier step makes is left out, and what is in a bucket.
    """
    found = {each.path: each for each in wanted if "://" not in each.path}
    problems = []
    for each in planned:
        if isinstance(each.recipe, Recipe):
            told = _of_pipeline(each.recipe, found)
        else:
            told = _of_training(each.recipe, found)
        problems += [f"{each.step.called}: {problem}" for problem in told]
    return list(dict.fromkeys(problems))


def _of_pipeline(recipe: Recipe, wanted: Mapping[str, Wanted]) -> list[str]:
    checks: list[Callable[[], object]] = []
    given = {
        name: queries
        for name, queries in recipe.queries.items()
        if {queries.file, queries.qrels, queries.document_qrels} - {None} <= wanted.keys()
    }
    checks.append(partial(read_first, recipe.model_copy(update={"queries": given})))
    checks += _of_collection(recipe.collection, wanted)
    for stage in recipe.stages.values():
        runs = stage.runs.values() if isinstance(stage, Read) else ()
        checks += [partial(_is_run, Path(path)) for path in runs if path in wanted]
    for name, model in recipe.models.items():
        if model.path in wanted or model.path in PACKAGED_MODELS:
            resolved = partial(resolve_model, model.path, model.preset)
            kinds, told = _kinds_wanted(recipe, name), wanted.get(model.path)
            checks.append(partial(_check_model, resolved, kinds, told))
    return _problems(checks)


def _of_training(recipe: Training | PhasedTraining, wanted: Mapping[str, Wanted]) -> list[str]:
    checks: list[Callable[[], object]] = []
    trainings = trainings_of(recipe)
    start = trainings[0].model.start
    if start in wanted or start in PACKAGED_MODELS:
        resolved = partial(start_model, trainings[0])
        checks.append(partial(_check_model, resolved, set(), wanted.get(start)))
    for collection in trainings[0].collections.values():
        checks += _of_collection(collection, wanted)
    named: dict[tuple[str, str], None] = {}
    for training in trainings:
        for each in [*training.train.values(), *training.dev.values(), *training.guard.values()]:
            for kind in _READERS:
                path = getattr(each, kind, None)
                if isinstance(path, str) and path in wanted:
                    named[kind, path] = None
    checks += [partial(_READERS[kind], Path(path)) for kind, path in named]
    return _problems(checks)


def _of_collection(
    collection: Collection, wanted: Mapping[str, Wanted]
) -> list[Callable[[], object]]:
    if not all(path in wanted for path in collection.input):
        return []
    paths = [Path(path) for path in collection.input]
    return [partial(_read_some, collection.format, paths)]


def _kinds_wanted(recipe: Recipe, model: str) -> set[str]:
    """The kinds that the stages need of a model."""
    found = set()
    for stage in recipe.stages.values():
        if isinstance(stage, MonoScore | DuoScore) and stage.model == model:
            found.add("mono" if isinstance(stage, MonoScore) else "duo")
        elif isinstance(stage, Encode) and stage.model == model:
            found.add("encoder")
    return found


def _check_model(
    resolved: Callable[[], ModelFolder], kinds: set[str], wanted: Wanted | None
) -> None:
    """Returns nothing if the model is of the kinds, and of the size that the figures are of."""
    model = resolved()
    if kinds - {model.conventions.kind}:
        raise InputError(
            f"{model.path}: expected a model of kind {', '.join(sorted(kinds))}, found kind "
            f"{model.conventions.kind}; name the right folder"
        )
    told = None if wanted is None else wanted.described
    if told is None or told.layers is None:
        return
    config = model.family.files.as_bert(model.config())
    expected = told.layers, told.hidden
    found = config["num_hidden_layers"], config["hidden_size"]
    if found != expected:
        raise InputError(
            f"{model.path}: expected {told.what}: {expected[0]} layers of {expected[1]}, found "
            f"{found[0]} of {found[1]}; the published figures are not of such weights. To run "
            "others all the same, name them in the recipe's setting, such as models.NAME.path=..."
        )


def _read_some(name: str, paths: list[Path]) -> None:
    """Returns nothing if the first records of the first file are of the format."""
    if name in ("ir-datasets", "python-docs", "jsonl"):
        return
    format = get_format(name)
    path = format.files(paths)[0]
    parse = format.parse or format.document
    if parse is None or format.split is not LINES:
        return  # its records are no lines; what is counted first is the whole file
    with open_binary(path) as stream:
        for number, record in enumerate(islice(lines(stream, name=str(path)), FIRST_RECORDS), 1):
            try:
                parse(record)
            except ValueError as error:
                raise InputError(
                    f"{path}: line {number}: {error}; expected passages in format {name}"
                ) from None


def _is_run(path: Path) -> None:
    if not is_parquet(path):
        sniff(path)


def _is_triples(path: Path) -> None:
    with open_binary(path) as stream:
        line = next(lines(stream, name=str(path)), b"")
    columns = line.split(b"\t")
    if len(columns) != 3:
        raise InputError(
            f"{path}: line 1: expected three columns with tabs between (query, relevant and "
            f"irrelevant passage), found {len(columns)}"
        )


_READERS: dict[str, Callable[[Path], object]] = {
    "queries": read_queries,
    "qrels": read_qrels,
    "run": _is_run,
    "triples": _is_triples,
    "texts": _is_triples,
}


def _problems(checks: Iterable[Callable[[], object]]) -> list[str]:
    found: list[str] = []
    for check in checks:
        try:
            check()
        except InputError as error:
            found += error.problems
    return found
