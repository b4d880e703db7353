"""The sets of a training, each opened once over the stores of its collection."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raypipe.config.fields import Section
from raypipe.config.load import load_recipe
from raypipe.config.parts import PACKAGED_MODELS, Model, QuerySet
from raypipe.config.rounds import LAST
from raypipe.config.training import DevSet, Mine, Negatives, TrainDocuments, Training, TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.models import opened
from raypipe.driver.recipe.fit import refuse_unfit
from raypipe.driver.recipe.graph import Graph, System
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.kinds.documents import PassageRun
from raypipe.kinds.encode import Encode
from raypipe.kinds.read import GivenRun
from raypipe.kinds.registry import Stage
from raypipe.kinds.score import MonoScore
from raypipe.kinds.search import DenseSearch
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.storage.files import replace_file
from raypipe.storage.records import digest, hash_file
from raypipe.storage.store import Stored
from raypipe.training.examples_stage import ExamplesStage, OfDocuments
from raypipe.training.guard import Guard
from raypipe.training.job import DevPassages, DevStores, conventions_of_training
from raypipe.training.losses import BATCH_LOSSES
from raypipe.vocabulary import K_MAX, Unit

ALL = 10**9
"""More documents or passages than a query has."""


@dataclass(kw_only=True)
class CollectionGraph(Graph):
    """The stores of one of a training's collections; each set adds its queries and its stages."""

    training: Training
    workspace: Workspace
    """The collection's own: stores of another one have the same names."""
    phases: Mapping[str, Path]
    """The models of all earlier phases."""
    made: Path
    """The folder of runs that a training writes itself; see `write_relevant`."""
    say: Callable[[str], None]
    """Gets a line for each proof of a model."""

    def model(self, name: str) -> ModelFolder:
        """A model of the recipe, as it may be computed: see `computable`."""
        if name not in self.models:
            from raypipe.driver.proof.proof import computable

            models = {name: opened(self.recipe.models[name], self.recipe.resources.precision)}
            self.models = {**self.models, **computable(models, self.workspace.stores, self.say)}
        return self.models[name]

    def add(self, **parts: Mapping[str, Section]) -> None:
        """Add query sets, models or stages to the recipe."""
        update = {part: getattr(self.recipe, part) | own for part, own in parts.items()}
        self.recipe = self.recipe.model_copy(update=update)

    def ranking(self, name: str, query_set: str, stage: Stage) -> System:
        """The finished run of a stage that is added."""
        self.add(stages={name: stage})
        return self.system(name, query_set)

    def run(self, name: str, query_set: str, file: str, unit: Unit = "passages") -> System:
        """The ranking in a run file."""
        stage = GivenRun.model_construct(do="read", runs={query_set: file}, of=unit)
        return self.ranking(name, query_set, stage)

    def passages(
        self, name: str, query_set: str, run: str, documents: int, at_most: int | None = None
    ) -> System:
        """All passages, or the first ones, of a run's first documents."""
        stage = PassageRun.model_construct(
            do="passages", run=run, documents=documents, at_most=at_most
        )
        return self.ranking(name, query_set, stage)

    def add_queries(
        self, name: str, keys: TrainingSet | DevSet, qrels: str | None, exclude: str | None = None
    ) -> None:
        """Add the query set of a file; with qrels, only the queries that they judge."""
        queries = QuerySet(file=keys.queries, exclude=exclude)
        if qrels is not None:
            judged = "qrels" if keys.documents is None else "document_qrels"
            queries = queries.model_copy(update={judged: qrels, "only_judged": True})
        self.add(queries={name: queries})

    def phase_model(self, phase: str) -> str:
        """The name of an earlier phase's model, which is in the names of its scores' stores."""
        self.add(models={f"of-{phase}": Model(path=str(self.phases[phase]))})
        return f"of-{phase}"

    def teacher_model(self, model: str) -> str:
        """The name of a teacher's model, which is in the names of its scores' stores."""
        name = model if model in PACKAGED_MODELS else f"teacher-{digest(model.encode())[:8]}"
        self.add(models={name: Model(path=model)})
        return name

    def miner(self, mine: Mine) -> str:
        """The name of the model that searches for negatives.

        It is the trained one's as it begins, if that is an encoder; so it shares its word pieces.
        """
        if mine.with_ != LAST:
            return self.phase_model(mine.with_)
        model = self.training.model
        tuned = None if model.adapter is None else model.adapter.start
        if tuned is None and conventions_of_training(model).kind == "encoder":
            return model_name(self.training)
        begun = Model(path=model.start, revision=model.revision)
        self.add(models={"begun": begun if tuned is None else Model(path=tuned)})
        return "begun"

    def trained_tokens(self, query_set: str) -> tuple[Stored, Stored]:
        """Word pieces of a query set and of the collection, for the trained model."""
        name = model_name(self.training)
        return self.tokens(name, query_set), self.tokens(name)


def model_name(recipe: Training) -> str:
    """The model's name in the word pieces' store names; as in a pipeline, so as to reuse them."""
    return "minilm" if recipe.model.start == "minilm" else "start"


@dataclass(frozen=True)
class OpenedSet:
    """A training set over its collection's stores; each of them is completed once."""

    name: str
    keys: TrainingSet
    graph: CollectionGraph

    def __post_init__(self) -> None:
        """Adds its queries to the graph; those of triples are not looked up in judgements."""
        assert self.keys.queries is not None
        qrels = None if self.keys.triples is not None else self.keys.qrels
        self.graph.add_queries(self.query_set, self.keys, qrels, self.keys.exclude)

    @property
    def query_set(self) -> str:
        """The name of its query set."""
        return f"train-{self.name}"

    @property
    def runs(self) -> list[System]:
        """The rankings in the files that supply negatives or pairs."""
        return self._read("run", runs_of(self.keys), unit_of(self.keys))

    @property
    def first_stages(self) -> list[System]:
        """The rankings in the files of first stages that a blend learns of."""
        return self._read("blend", blend_of(self.keys))

    def problems(self) -> Iterator[str]:
        """A problem if no query is judged, and for every run without ranks and scores that are
        used."""
        keys, key = self.keys, f"train.{self.name}"
        if keys.qrels is not None and not self.graph.queries(self.query_set).num_rows:
            yield (
                f"{key}: {keys.queries}: none of its queries is judged in {keys.qrels}; expected "
                "the judgements of these queries"
            )
            return
        window, place = keys.negatives or keys.pairs, "negatives" if keys.negatives else "pairs"
        for file, run in zip(runs_of(keys), self.runs, strict=True):
            assert window is not None
            yield from _cut(file, run, f"{key}.{place}.last", window.last)
            if isinstance(window, Negatives):
                yield from _of_ranks(file, run, f"{key}.{place}", window)
        scored = []
        if keys.teacher is not None and not is_model(keys.teacher):
            scored.append((f"{key}.teacher", keys.teacher, self.teacher(keys.teacher)[0]))
        for file, run in zip(blend_of(keys), self.first_stages, strict=True):
            scored.append((f"{key}.blend.runs", file, run))
        for place, file, run in scored:
            if run.unordered:
                yield (
                    f"{place}: {file}: expected a score for each passage, found candidates "
                    "without ranks and scores; score them first"
                )

    def teacher(self, teacher: str) -> tuple[System, int | None]:
        """A teacher's scores, and the last rank that it scored; None if it scored all."""
        name, query_set, graph = f"{self.query_set}-teacher", self.query_set, self.graph
        if not is_model(teacher):
            file, last = teacher_of(teacher)
            return graph.run(name, query_set, file), last
        assert self.keys.negatives is not None
        stage = MonoScore.model_construct(
            do="score",
            run=f"{query_set}-run-0",
            model=graph.teacher_model(teacher),
            k0=self.keys.negatives.last,
            tail="drop",
        )
        return graph.ranking(name, query_set, stage), None

    def examples(self, guard: Guard) -> ExamplesStage:
        """The stage that makes the examples, over the completed stores that it reads."""
        keys, graph = self.keys, self.graph
        runs, documents = [*self.runs, *self._mined()], None
        teacher, last = (None, None) if keys.teacher is None else self.teacher(keys.teacher)
        first_stages = tuple(run.stored for run in self.first_stages)
        if keys.documents is not None:
            documents = OfDocuments(graph.passage_map(), graph.ids(), self._best(keys.documents))
        return ExamplesStage(
            wanted=keys,
            collection=graph.collection() if documents is None else graph.documents(),
            ids=graph.ids() if documents is None else graph.document_ids(),
            documents=documents,
            queries=graph.queries(self.query_set),
            runs=tuple(run.stored for run in runs),
            teacher=None if teacher is None else teacher.stored,
            teacher_last=last,
            first_stages=first_stages,
            guard=guard,
            seed=graph.training.seed,
            name=self.name,
            in_batch=graph.training.loss.name in BATCH_LOSSES,
        )

    def _read(self, what: str, files: Sequence[str], unit: Unit = "passages") -> list[System]:
        names = (f"{self.query_set}-{what}-{number}" for number in range(len(files)))
        pairs = zip(names, files, strict=True)
        return [self.graph.run(name, self.query_set, file, unit) for name, file in pairs]

    def _mined(self) -> Iterator[System]:
        """The run of an encoder's search, if the set has one."""
        negatives, graph = self.keys.negatives, self.graph
        if negatives is not None and negatives.mine is not None:
            miner = graph.miner(negatives.mine)
            index = f"{miner}-encoded"
            graph.add(stages={index: Encode.model_construct(do="encode", model=miner)})
            search = DenseSearch.model_construct(do="search", index=index, depth=negatives.last)
            name = f"{self.query_set}-run-{len(negatives.runs)}"
            yield graph.ranking(name, self.query_set, search)

    def _best(self, documents: TrainDocuments) -> Stored | None:
        """The scores of an earlier phase's model for the passages of the relevant documents."""
        query_set, graph = self.query_set, self.graph
        if documents.scored_by is None:
            return None
        file = write_relevant(graph.made, self.name, self.keys)
        relevant, passages = f"{query_set}-relevant", f"{query_set}-passages"
        graph.run(relevant, query_set, str(file), "documents")
        graph.passages(passages, query_set, relevant, ALL, documents.passages)
        model = graph.phase_model(documents.scored_by)
        score = MonoScore.model_construct(do="score", run=passages, model=model, k0=ALL)
        return graph.ranking(f"{query_set}-scored", query_set, score).stored


@dataclass(frozen=True)
class OpenedDev:
    """A dev set over its collection's stores; each of them is completed once."""

    name: str
    keys: DevSet
    graph: CollectionGraph

    def __post_init__(self) -> None:
        """Adds its queries to the graph."""
        self.graph.add_queries(self.query_set, self.keys, self.keys.qrels)

    @property
    def query_set(self) -> str:
        """The name of its query set."""
        return f"dev-{self.name}"

    @property
    def run(self) -> System:
        """The ranking in its file."""
        keys, query_set = self.keys, self.query_set
        return self.graph.run(f"{query_set}-run", query_set, keys.run, unit_of(keys))

    def problems(self) -> Iterator[str]:
        """Problems of judgements that do not fit, or of a run that is cut without an order."""
        keys, key = self.keys, f"dev.{self.name}"
        judged = {(self.query_set, unit_of(keys)): read_qrels(Path(keys.qrels))}
        try:
            refuse_unfit(self.graph, judged)
        except InputError as error:
            yield from (f"{key}: {problem}" for problem in error.problems)
        else:
            yield from _cut(keys.run, self.run, f"{key}.k", keys.k)

    def stores(self) -> DevStores:
        """The set's stores, completed."""
        keys, graph, query_set = self.keys, self.graph, self.query_set
        run, documents = self.run, None
        if keys.documents is not None:
            passages = graph.passages(f"{query_set}-passages", query_set, run.name, keys.k).stored
            method, k = keys.documents.method, keys.documents.k or K_MAX
            documents = DevPassages(passages, graph.passage_map(), method, k)
        query_tokens, passage_tokens = graph.trained_tokens(query_set)
        return DevStores(
            run=run.stored,
            queries=graph.queries(query_set),
            collection=graph.ranked(unit_of(keys)),
            documents=documents,
            query_tokens=query_tokens,
            passage_tokens=passage_tokens,
            qrels=keys.qrels,
            qrels_sha256=hash_file(Path(keys.qrels)),
            k=keys.k,
            queries_at_most=keys.queries_at_most,
        )


def unit_of(keys: TrainingSet | DevSet) -> Unit:
    """The unit that the judgements and the runs of a set name."""
    return "passages" if keys.documents is None else "documents"


def runs_of(keys: TrainingSet) -> tuple[str, ...]:
    """The run files that supply a set's negatives or pairs; none for triples."""
    window = keys.negatives or keys.pairs
    return () if window is None else window.runs


def sources_of(keys: TrainingSet) -> list[str]:
    """The same with the run that the training makes, in words."""
    mine = None if keys.negatives is None else keys.negatives.mine
    return [*runs_of(keys), *([] if mine is None else [f"mined with {mine.with_}"])]


def blend_of(keys: TrainingSet) -> tuple[str, ...]:
    """The run files of the first stages that a blend learns of."""
    return () if keys.blend is None else keys.blend.runs


def _cut(file: str, run: System, key: str, last: int) -> Iterator[str]:
    """A problem if `last` cuts the lists of a run without an order."""
    if last < run.unordered:
        yield (
            f"{key}: {file} has candidates without ranks and scores, up to {run.unordered:,} for a "
            f"query, of which {last:,} would take the first of the file; write {run.unordered} or "
            "more, or give the file a column rank or score"
        )


def _of_ranks(file: str, run: System, key: str, window: Negatives) -> Iterator[str]:
    """Problems with the other keys that count ranks, which a run without an order lacks."""
    used = {"first": window.first > 1, "relevant_last": window.relevant_last is not None}
    for name, is_used in used.items():
        if is_used and run.unordered:
            yield (
                f"{key}.{name}: {file} has candidates without ranks and scores; remove it, or give "
                "the file a column rank or score"
            )


def relevant_file(folder: Path, name: str) -> Path:
    """The run file of a training set."""
    return folder / f"{name}.trec"


def write_relevant(folder: Path, name: str, keys: TrainingSet) -> Path:
    """Write the run: the documents of each query with a relevant grade, in the order of the qrels.

    Raises:
        InputError: no query of the set has one.
    """
    assert keys.queries is not None and keys.qrels is not None
    known = {query_id for query_id, _ in read_queries(Path(keys.queries))}
    qrels = read_qrels(Path(keys.qrels))
    columns = (qrels[column].to_pylist() for column in ("query_id", "passage_id", "relevance"))
    relevant: dict[str, list[str]] = {}
    for query_id, document_id, grade in zip(*columns, strict=True):
        if grade >= keys.min_grade and query_id in known:
            relevant.setdefault(query_id, []).append(document_id)
    if not relevant:
        raise InputError(
            f"{keys.qrels}: no judgement of grade {keys.min_grade} or higher for a query of "
            f"{keys.queries}"
        )
    lines = [
        f"{query_id} Q0 {document_id} {rank} {-rank} relevant\n"
        for query_id, documents in relevant.items()
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
    runs = sorted(file for name in monos for file in folder.glob(f"runs/*/{name}.trec*"))
    if len(runs) != 1:
        names = ", ".join(str(file.relative_to(folder)) for file in runs) or "none"
        raise InputError(
            f"{path}: expected a workspace of `raypipe score` with one monoBERT model's run over "
            f"one query set, found {names}; name the run file itself, made with --tail drop"
        )
    return str(runs[0]), monos[runs[0].name.partition(".")[0]]


def is_model(teacher: str) -> bool:
    """Whether a teacher is a model, included or in a folder, and not its scores."""
    files = (Path(teacher) / name for name in ("config.json", "adapter_config.json"))
    return teacher in PACKAGED_MODELS or any(file.exists() for file in files)
