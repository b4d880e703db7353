"""The files and weights that the steps of a reproduction read: what is missing, what is wrong."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from raypipe.config.parts import PACKAGED_MODELS, Collection
from raypipe.config.paths import recipe_inputs
from raypipe.config.phases import PhasedTraining, trainings_of
from raypipe.config.recipe import Recipe
from raypipe.config.training import Training
from raypipe.data.formats.json_lines import OBJECTS
from raypipe.data.formats.registry import get_format
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.data.records import LINES, lines
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.training.place import start_model
from raypipe.errors import InputError
from raypipe.evaluation.run_files.forms import form_of
from raypipe.kinds.encode import Encode
from raypipe.kinds.read import GivenRun
from raypipe.kinds.score import DuoScore, MonoScore
from raypipe.models.folder.model_folder import ModelFolder, resolve_model
from raypipe.report.published import Input, Planned, Reproduction, inputs
from raypipe.storage.compression import open_binary


@dataclass(frozen=True)
class WantedInput:
    """A file or folder that steps read."""

    path: str
    """As the recipes have it, absolute; or a URI."""
    what: str
    origin: str | None
    """Where it comes from; None of a path that only the user's settings name."""
    steps: tuple[str, ...]
    described: Input | None

    @property
    def shown(self) -> str:
        """The path for a reader: with the variable's name where it is not set."""
        return self.path.removeprefix("/") if self.path.startswith("/${") else self.path

    @property
    def is_there(self) -> bool:
        """Whether it exists; of a URI that is not checked here."""
        return "://" in self.path or Path(self.path).exists()

    def line(self) -> str:
        """One line with its path, form, origin and steps."""
        origin = "" if self.origin is None else f"; from {self.origin}"
        return f"{self.shown}: {self.what}{origin} (for {', '.join(self.steps)})"

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        return {
            "path": self.shown,
            "what": self.what,
            "from": self.origin,
            "steps": [*self.steps],
            "found": self.is_there,
        }


def wanted(
    of: Reproduction, out: Path, planned: Sequence[Planned], values: Mapping[str, str]
) -> list[WantedInput]:
    """Inputs that the steps read and no earlier step makes, in the order of the steps.

    `values` are those of the variables, from `plan.variables`.
    """
    known = {_expanded(path, values): entry for path, entry in inputs().inputs.items()}
    steps: dict[str, dict[str, None]] = {}
    expected: dict[str, str] = {}
    made: list[Path] = []
    for each in planned:
        for _, path, what in recipe_inputs(each.recipe):
            if not any(_within(path, folder) for folder in made):
                steps.setdefault(path, {})[each.step.called] = None
                expected.setdefault(path, what)
        made.append(each.folder)
    wanted_inputs = []
    for path, of_steps in steps.items():
        entry = known.get(path)
        maker = next((s for s in of.steps if _within(path, out / s.folder)), None)
        what = expected[path] if entry is None else entry.what
        if maker is not None:
            what = f"what the step {maker.called} makes; run it too"
        origin = None if entry is None else entry.from_
        wanted_inputs.append(WantedInput(path, what, origin, tuple(of_steps), entry))
    return wanted_inputs


def missing(wanted_inputs: Sequence[WantedInput], unset: Sequence[str]) -> list[str]:
    """A problem for each missing file or folder, then what can be run, and how to name folders."""
    absent = [each for each in wanted_inputs if not each.is_there]
    problems = [f"missing: {each.line()}" for each in absent]
    whole = {step: None for each in wanted_inputs for step in each.steps}
    for step in {step for each in absent for step in each.steps}:
        whole.pop(step, None)
    if absent and whole:
        options = " ".join(f"--only {step}" for step in whole)
        problems.append(f"the other steps have all that they read: to run them alone, {options}")
    names = [name for name in unset if any(f"${{{name}}}" in each.path for each in absent)]
    if names:
        folders = [f"{inputs().folders[name]} for {name}" for name in names]
        problems.append(
            f"not set: {', '.join(names)}; set each to its folder, or name with --data one folder "
            f"that holds {', '.join(folders)}"
        )
    return problems


def _within(path: str, folder: Path) -> bool:
    return Path(path).is_relative_to(folder.absolute())


def _expanded(path: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        path = path.replace(f"${{{name}}}", value, 1) if name in inputs().folders else path
    return os.path.abspath(path)


FIRST_RECORDS = 10
"""Records of a collection that are read: its first lines show whether its format is right."""


def wrong_inputs(planned: Iterable[Planned], wanted_inputs: Iterable[WantedInput]) -> list[str]:
    """The problems of inputs that are there but not what the recipes need, with their steps.

    Queries and judgements are read whole, collections, runs and triples by their first lines, and
    of model folders all files. Inputs that an earlier step makes or that are in a bucket are left
    out.
    """
    by_path = {each.path: each for each in wanted_inputs if "://" not in each.path}
    problems = []
    for each in planned:
        if isinstance(each.recipe, Recipe):
            own_problems = _of_pipeline(each.recipe, by_path)
        else:
            own_problems = _of_training(each.recipe, by_path)
        problems += [f"{each.step.called}: {problem}" for problem in own_problems]
    return list(dict.fromkeys(problems))


def _of_pipeline(recipe: Recipe, by_path: Mapping[str, WantedInput]) -> list[str]:
    checks: list[Callable[[], object]] = []
    given = {
        name: queries
        for name, queries in recipe.queries.items()
        if {queries.file, queries.qrels, queries.document_qrels} - {None} <= by_path.keys()
    }
    checks.append(partial(read_first, recipe.model_copy(update={"queries": given})))
    checks += _of_collection(recipe.collection, by_path)
    for stage in recipe.stages.values():
        runs = stage.runs.values() if isinstance(stage, GivenRun) else ()
        checks += [partial(form_of, Path(path)) for path in runs if path in by_path]
    for name, model in recipe.models.items():
        if model.path in by_path or model.path in PACKAGED_MODELS:
            resolved = partial(resolve_model, model.path, model.preset)
            kinds, entry = _kinds_wanted(recipe, name), by_path.get(model.path)
            checks.append(partial(_check_model, resolved, kinds, entry))
    return _problems(checks)


def _of_training(
    recipe: Training | PhasedTraining, by_path: Mapping[str, WantedInput]
) -> list[str]:
    checks: list[Callable[[], object]] = []
    trainings = trainings_of(recipe)
    start = trainings[0].model.start
    if start in by_path or start in PACKAGED_MODELS:
        resolved = partial(start_model, trainings[0])
        checks.append(partial(_check_model, resolved, set(), by_path.get(start)))
    for collection in trainings[0].collections.values():
        checks += _of_collection(collection, by_path)
    named: dict[tuple[str, str], None] = {}
    for training in trainings:
        for each in [*training.train.values(), *training.dev.values(), *training.guard.values()]:
            for kind in _READERS:
                path = getattr(each, kind, None)
                if isinstance(path, str) and path in by_path:
                    named[kind, path] = None
    checks += [partial(_READERS[kind], Path(path)) for kind, path in named]
    return _problems(checks)


def _of_collection(
    collection: Collection, by_path: Mapping[str, WantedInput]
) -> list[Callable[[], object]]:
    if not all(path in by_path for path in collection.input):
        return []
    paths = [Path(path) for path in collection.input]
    return [partial(_read_some, collection.format, paths)]


def _kinds_wanted(recipe: Recipe, model: str) -> set[str]:
    """The kinds that the stages need of a model."""
    kinds = set()
    for stage in recipe.stages.values():
        if isinstance(stage, MonoScore | DuoScore) and stage.model == model:
            kinds.add("mono" if isinstance(stage, MonoScore) else "duo")
        elif isinstance(stage, Encode) and stage.model == model:
            kinds.add("encoder")
    return kinds


def _check_model(
    resolved: Callable[[], ModelFolder], kinds: set[str], entry: WantedInput | None
) -> None:
    """Returns nothing if the model is of the kinds, and of the size that the figures are of."""
    model = resolved()
    if kinds - {model.conventions.kind}:
        raise InputError(
            f"{model.path}: expected a model of kind {', '.join(sorted(kinds))}, found kind "
            f"{model.conventions.kind}; name the right folder"
        )
    weights = None if entry is None else entry.described
    if weights is None or weights.layers is None:
        return
    config = model.family.files.as_bert(model.config())
    expected = weights.layers, weights.hidden
    size = config["num_hidden_layers"], config["hidden_size"]
    if size != expected:
        raise InputError(
            f"{model.path}: expected {weights.what}: {expected[0]} layers of {expected[1]}, found "
            f"{size[0]} of {size[1]}; the published figures are not of such weights. To run "
            "others all the same, name them in the recipe's setting, such as models.NAME.path=..."
        )


def _read_some(name: str, paths: list[Path]) -> None:
    """Returns nothing if the first records of the first file are of the format."""
    if name in ("ir-datasets", "python-docs", "jsonl"):
        return
    format = get_format(name)
    path = format.files(paths)[0]
    parse = format.parse or format.document
    if parse is None or format.split not in (LINES, OBJECTS):
        return  # its records are no lines; what is counted first is the whole file
    with open_binary(path) as stream:
        records = format.split.records(stream, name=str(path), at=0, first=0, skip=0)
        for number, record in enumerate(islice(records, FIRST_RECORDS), 1):
            try:
                parse(record)
            except ValueError as error:
                where = f"{path}: {format.split.place(number, record)}"
                raise InputError(f"{where}: {error}; expected passages in format {name}") from None


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
    "run": form_of,
    "triples": _is_triples,
    "texts": _is_triples,
}


def _problems(checks: Iterable[Callable[[], object]]) -> list[str]:
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except InputError as error:
            problems += error.problems
    return problems
