"""Pipeline recipes of a training's collections, query sets and runs, from which parts are taken."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, load_recipe
from raypipe.config.parts import PACKAGED_MODELS
from raypipe.config.rounds import LAST
from raypipe.config.training import DevSet, TrainDocuments, Training, TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.hub_names import address
from raypipe.kinds.score import MonoScore
from raypipe.storage.files import replace_file
from raypipe.storage.records import digest
from raypipe.training.job import conventions_of_training


def relevant_file(folder: Path, name: str) -> Path:
    """The run file of a training set."""
    return folder / f"{name}.trec"


def write_relevant(folder: Path, name: str, wanted: TrainingSet) -> Path:
    """Write the run: the documents of each query with a relevant grade, in the order of the qrels.

    Raises:
        InputError: no query of the set has one.
    """
    assert wanted.queries is not None and wanted.qrels is not None
    known = {query_id for query_id, _ in read_queries(Path(wanted.queries))}
    qrels = read_qrels(Path(wanted.qrels))
    columns = (qrels[column].to_pylist() for column in ("query_id", "passage_id", "relevance"))
    found: dict[str, list[str]] = {}
    for query_id, document_id, grade in zip(*columns, strict=True):
        if grade >= wanted.min_grade and query_id in known:
            found.setdefault(query_id, []).append(document_id)
    if not found:
        raise InputError(
            f"{wanted.qrels}: no judgement of grade {wanted.min_grade} or higher for a query of "
            f"{wanted.queries}"
        )
    lines = [
        f"{query_id} Q0 {document_id} {rank} {-rank} relevant\n"
        for query_id, documents in found.items()
        for rank, document_id in enumerate(documents, 1)
    ]
    path = relevant_file(folder, name)
    replace_file(path, "".join(lines).encode())
    return path


def teacher_of(path: str) -> tuple[str, int | None]:
    """The run file, and the last rank that the teacher scored; None if it scored all.

    Of a workspace, only the first k0 candidates of each query count: `score` keeps the others in
    another run's order, and their scores are not the teacher's.

    Raises:
        InputError: a folder that does not hold exactly one run of one monoBERT model.
    """
    folder = Path(path)
    if not folder.is_dir():
        return path, None
    resolved = folder / "recipe.yaml"
    stages = load_recipe(resolved).stages if resolved.exists() else {}
    monos = {name: s.k0 for name, s in stages.items() if isinstance(s, MonoScore)}
    found = sorted(file for name in monos for file in folder.glob(f"runs/*/{name}.trec*"))
    if len(found) != 1:
        names = ", ".join(str(file.relative_to(folder)) for file in found) or "none"
        raise InputError(
            f"{path}: expected a workspace of `raypipe score` with one monoBERT model's run over "
            f"one query set, found {names}; name the run file itself, made with --tail drop"
        )
    return str(found[0]), monos[found[0].name.partition(".")[0]]


def is_model(teacher: str) -> bool:
    """Whether a teacher is a model, included or in a folder, and not its scores."""
    found = (Path(teacher) / name for name in ("config.json", "adapter_config.json"))
    return teacher in PACKAGED_MODELS or any(file.exists() for file in found)


ALL = 10**9
"""More documents or passages than a query has."""


def parts_recipe(
    recipe: Training, name: str, *, scorers: Mapping[str, Path] = {}, relevant: Path = Path()
) -> Recipe:
    """A recipe with a collection, its query sets and their runs, from which parts are taken.

    Args:
        recipe: the training.
        name: the collection.
        scorers: the models of earlier phases, which may score passages of relevant documents.
        relevant: the folder with the runs of relevant documents; see `write_relevant`.
    """
    models: dict[str, Any] = {
        model_name(recipe): {"path": address(recipe.model.start, recipe.model.revision)}
    }
    queries: dict[str, Any] = {}
    stages: dict[str, Any] = {}
    for group, wanted in recipe.train.items():
        if wanted.collection == name and wanted.queries is not None:
            query_set = f"train-{group}"
            judged = None if wanted.triples is not None else wanted.qrels
            of_set = _queries(wanted.queries, judged, wanted.documents)
            queries[query_set] = of_set | {"exclude": wanted.exclude}
            stages |= _train_stages(query_set, wanted, relevant_file(relevant, group))
            stages |= _mining_stages(query_set, wanted, miner_of(recipe, wanted))
            models |= _more_models(recipe, wanted, scorers)
            if wanted.documents is not None and wanted.documents.scored_by is not None:
                scorer = wanted.documents.scored_by
                models[scored_with(scorer)] = {"path": str(scorers[scorer])}
    for group, dev in recipe.dev.items():
        if dev.collection == name:
            query_set = f"dev-{group}"
            queries[query_set] = _queries(dev.queries, dev.qrels, dev.documents)
            stages |= _dev_stages(query_set, dev)
    body = {
        "format": 1,
        "name": recipe.name,
        "collection": recipe.collections[name].model_dump(mode="json", exclude_none=True),
        "queries": queries,
        "models": models,
        "stages": stages,
        "resources": {"precision": recipe.resources.precision},
    }
    return load_recipe(body, source=recipe.name)


def _queries(file: str, qrels: str | None, documents: object | None) -> dict[str, Any]:
    """The query set of a file; with qrels, only the queries that they judge."""
    if qrels is None:
        return {"file": file}
    judged = "qrels" if documents is None else "document_qrels"
    return {"file": file, judged: qrels, "only_judged": True}


def _train_stages(query_set: str, wanted: TrainingSet, relevant: Path) -> dict[str, Any]:
    """The stages that read a training set's runs, and score what `relevant` has to be scored."""
    stages = {
        f"{query_set}-run-{number}": _read(query_set, path, wanted.documents)
        for number, path in enumerate(runs_of(wanted))
    }
    if wanted.documents is not None and wanted.documents.scored_by is not None:
        stages |= _best_stages(query_set, str(relevant), wanted.documents)
    if wanted.teacher is not None and not is_model(wanted.teacher):
        stages[f"{query_set}-teacher"] = _read(query_set, teacher_of(wanted.teacher)[0])
    if wanted.blend is not None:
        for number, path in enumerate(wanted.blend.runs):
            stages[f"{query_set}-blend-{number}"] = _read(query_set, path)
    return stages


def _mining_stages(query_set: str, wanted: TrainingSet, miner: str) -> dict[str, Any]:
    """The stages that search for a set's negatives, and score its run with a teacher's model."""
    stages: dict[str, Any] = {}
    if wanted.negatives is None:
        return stages
    depth, run = wanted.negatives.last, f"{query_set}-run-{len(wanted.negatives.runs)}"
    if wanted.negatives.mine is not None:
        stages[f"{miner}-encoded"] = {"do": "encode", "model": miner}
        stages[run] = {"do": "search", "index": f"{miner}-encoded", "depth": depth}
    if wanted.teacher is not None and is_model(wanted.teacher):
        scored = {"run": f"{query_set}-run-0", "model": teacher_name(wanted.teacher)}
        stages[f"{query_set}-teacher"] = {"do": "score", **scored, "k0": depth, "tail": "drop"}
    return stages


def _more_models(
    recipe: Training, wanted: TrainingSet, scorers: Mapping[str, Path]
) -> dict[str, Any]:
    """The models that search for a set's negatives, or score its runs, beside the trained one's."""
    models: dict[str, Any] = {}
    if wanted.teacher is not None and is_model(wanted.teacher):
        models[teacher_name(wanted.teacher)] = {"path": wanted.teacher}
    mine = None if wanted.negatives is None else wanted.negatives.mine
    if mine is None or (miner := miner_of(recipe, wanted)) == model_name(recipe):
        return models
    adapter = recipe.model.adapter
    if mine.with_ != LAST:
        path = str(scorers[mine.with_])
    elif adapter is not None and adapter.start is not None:
        path = adapter.start
    else:
        path = address(recipe.model.start, recipe.model.revision)
    return models | {miner: {"path": path}}


def miner_of(recipe: Training, wanted: TrainingSet) -> str:
    """The name of the model that searches for a set's negatives.

    It is the trained one's as it begins, if that is an encoder; so it shares its word pieces.
    """
    mine = None if wanted.negatives is None else wanted.negatives.mine
    if mine is not None and mine.with_ != LAST:
        return scored_with(mine.with_)
    adapter = recipe.model.adapter
    whole = adapter is None or adapter.start is None
    encodes = conventions_of_training(recipe.model).kind == "encoder"
    return model_name(recipe) if encodes and whole else "begun"


def teacher_name(model: str) -> str:
    """The name of a teacher's model, which is in the names of its scores' stores."""
    return model if model in PACKAGED_MODELS else f"teacher-{digest(model.encode())[:8]}"


def _dev_stages(query_set: str, dev: DevSet) -> dict[str, Any]:
    """The stages that read a dev set's run, and take the passages of its documents."""
    stages = {f"{query_set}-run": _read(query_set, dev.run, dev.documents)}
    if dev.documents is not None:
        passages = {"do": "passages", "run": f"{query_set}-run", "documents": dev.k}
        stages[f"{query_set}-passages"] = passages
    return stages


def _read(query_set: str, path: str, documents: object | None = None) -> dict[str, Any]:
    """The stage that reads a run file of passages or documents."""
    read = {"do": "read", "runs": {query_set: path}}
    return read if documents is None else {**read, "of": "documents"}


def _best_stages(query_set: str, file: str, wanted: TrainDocuments) -> dict[str, Any]:
    """The stages that score the passages of the relevant documents in a run file."""
    relevant, passages = f"{query_set}-relevant", f"{query_set}-passages"
    assert wanted.scored_by is not None
    return {
        relevant: _read(query_set, file, wanted),
        passages: {
            "do": "passages",
            "run": relevant,
            "documents": ALL,
            "at_most": wanted.passages,
        },
        f"{query_set}-scored": {
            "do": "score",
            "run": passages,
            "model": scored_with(wanted.scored_by),
            "k0": ALL,
        },
    }


def scored_with(phase: str) -> str:
    """The name of an earlier phase's model, which is in the names of its scores' stores."""
    return f"of-{phase}"


def model_name(recipe: Training) -> str:
    """The model's name in the word pieces' store names; as in a pipeline, so as to reuse them."""
    return "minilm" if recipe.model.start == "minilm" else "start"


def runs_of(wanted: TrainingSet) -> Sequence[str]:
    """The run files that supply a training set's negatives or pairs; none for triples."""
    drawn = wanted.negatives or wanted.pairs
    return drawn.runs if drawn is not None else ()


def sources_of(wanted: TrainingSet) -> list[str]:
    """The same with the run that the training makes, in words."""
    mine = None if wanted.negatives is None else wanted.negatives.mine
    return [*runs_of(wanted), *([] if mine is None else [f"mined with {mine.with_}"])]
