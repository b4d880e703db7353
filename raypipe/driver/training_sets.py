"""The stores that a training reads, each brought to completion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, Training, load_recipe
from raypipe.config.training import DevSet, Guarded, TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.backends import LazyBackends
from raypipe.driver.builtin import with_files
from raypipe.driver.execute import Execution, Watcher
from raypipe.driver.graph import Graph, Runs
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RaypipeError
from raypipe.models.loading import ModelFolder
from raypipe.stages.stage import Sizing
from raypipe.storage.records import hash_file
from raypipe.storage.stored import Stored
from raypipe.training.examples_stage import ExamplesStage
from raypipe.training.guard import Dropped, Guard
from raypipe.training.job import DevStores, TrainStores, conventions_of_training
from raypipe.training.objective import BATCH_LOSSES


@dataclass
class Sets:
    """Every training and dev set's stores, and what is told of them."""

    train: tuple[TrainStores, ...] = ()
    dev: tuple[DevStores, ...] = ()
    told: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def training_sets(
    recipe: Training,
    start: ModelFolder,
    workspace: Workspace,
    backends: LazyBackends,
    sizing: Sizing,
    watcher: Watcher,
    say: Callable[[str], None],
    should_stop: Callable[[], RaypipeError | None],
) -> Sets:
    """Collections, queries, word pieces, runs and guarded examples.

    Each collection has a workspace of its own in OUT/collections, its stores among the others.
    """
    model = replace(start, conventions=conventions_of_training(recipe.model))
    graphs, executions = {}, {}
    for name in recipe.collections:
        folder = workspace.folder / "collections" / name
        own = Workspace(folder, workspace.stores.uri)
        executions[name] = Execution(
            workspace=own,
            backends=backends,
            sizing=sizing,
            watcher=watcher,
            should_stop=should_stop,
            on_change=say,
        )
        named = with_files(_pipeline(recipe, name), folder / "python-docs")
        ensure = executions[name].ensure
        graphs[name] = Graph(named, ensure, models={_model_name(recipe): model})
    guards = _guards(recipe)
    sets = Sets()
    for name, wanted in recipe.train.items():
        assert wanted.collection is not None
        graph = graphs[wanted.collection]
        query_set = f"train-{name}"
        runs = _runs(wanted)
        found = [
            graph.run(f"{query_set}-run-{number}", query_set, Runs()) for number in range(len(runs))
        ]
        taught = None
        if wanted.teacher is not None:
            taught = graph.run(f"{query_set}-teacher", query_set, Runs())
        stage = ExamplesStage(
            wanted=wanted,
            collection=graph.collection(),
            ids=graph.ids(),
            queries=graph.queries(query_set),
            runs=tuple(found),
            teacher=taught,
            guard=guards[wanted.collection],
            seed=recipe.seed,
            name=name,
            in_batch=recipe.loss.name in BATCH_LOSSES,
        )
        examples = executions[wanted.collection].ensure(f"{query_set}.examples", stage)
        tokens = _tokens(graph, recipe, query_set)
        sets.train = (*sets.train, TrainStores(examples, *tokens))
        facts = examples.manifest.records[0].facts
        sets.facts[name] = {**facts, "negatives_from": list(runs)}
        told = _told(name, facts)
        sets.told += told
        for line in told:
            say(line)
    for name, dev in recipe.dev.items():
        sets.dev = (*sets.dev, _dev(graphs[dev.collection], recipe, name, dev))
    return sets


def _dev(graph: Graph, recipe: Training, name: str, dev: DevSet) -> DevStores:
    query_set = f"dev-{name}"
    run = graph.run(f"{query_set}-run", query_set, Runs())
    query_tokens, passage_tokens = _tokens(graph, recipe, query_set)
    return DevStores(
        run=run,
        queries=graph.queries(query_set),
        collection=graph.collection(),
        query_tokens=query_tokens,
        passage_tokens=passage_tokens,
        qrels=dev.qrels,
        qrels_sha256=hash_file(Path(dev.qrels)),
        k=dev.k,
        queries_at_most=dev.queries_at_most,
    )


def _tokens(graph: Graph, recipe: Training, query_set: str) -> tuple[Stored, Stored]:
    name = _model_name(recipe)
    return graph.tokens(name, query_set), graph.tokens(name)


def _model_name(recipe: Training) -> str:
    """What the word pieces' stores are named after: as in a pipeline where they may stand."""
    return "minilm" if recipe.model.start == "minilm" else "start"


def _runs(wanted: TrainingSet) -> Sequence[str]:
    return wanted.negatives.runs if wanted.negatives is not None else ()


def _pipeline(recipe: Training, name: str) -> Recipe:
    """A recipe with a collection, its query sets and the runs over them, to be asked for parts."""
    queries: dict[str, Any] = {}
    stages: dict[str, Any] = {"unused": {"do": "index"}}
    for group, wanted in recipe.train.items():
        if wanted.collection == name:
            query_set = f"train-{group}"
            queries[query_set] = {"file": wanted.queries}
            if wanted.qrels is not None and wanted.triples is None:
                queries[query_set] |= {"qrels": wanted.qrels, "only_judged": True}
            for number, path in enumerate(_runs(wanted)):
                stages[f"{query_set}-run-{number}"] = {"do": "read", "runs": {query_set: path}}
            if wanted.teacher is not None:
                stages[f"{query_set}-teacher"] = {
                    "do": "read",
                    "runs": {query_set: wanted.teacher},
                }
    for group, dev in recipe.dev.items():
        if dev.collection == name:
            query_set = f"dev-{group}"
            queries[query_set] = {"file": dev.queries, "qrels": dev.qrels, "only_judged": True}
            stages[f"{query_set}-run"] = {"do": "read", "runs": {query_set: dev.run}}
    body = {
        "format": 1,
        "name": recipe.name,
        "collection": recipe.collections[name].model_dump(mode="json", exclude_none=True),
        "queries": queries,
        "models": {_model_name(recipe): {"path": recipe.model.start}},
        "stages": stages,
    }
    return load_recipe(body, source=recipe.name)


def _guards(recipe: Training) -> dict[str, Guard]:
    """What no training set over a collection may hold: texts of all sets, ids of its own."""
    every: list[tuple[DevSet | Guarded, bool]] = [(dev, False) for dev in recipe.dev.values()]
    every += [(guarded, guarded.leave_out_passages) for guarded in recipe.guard.values()]
    texts: list[str] = []
    guards = {name: Guard() for name in recipe.collections}
    for guarded, leave_out in every:
        queries = read_queries(Path(guarded.queries))
        judged = None if guarded.qrels is None else read_qrels(Path(guarded.qrels))
        if judged is None:
            texts += [text for _, text in queries]
            continue
        columns = ("query_id", "passage_id", "relevance")
        told = list(zip(*(judged[c].to_pylist() for c in columns), strict=True))
        asked = {query_id for query_id, _, _ in told}
        found = [text for query_id, text in queries if query_id in asked]
        if not found:
            raise InputError(
                f"{guarded.queries}: none of its queries is judged in {guarded.qrels}; expected "
                "the judgements of these queries"
            )
        texts += found
        if guarded.collection is None:
            continue
        before = guards[guarded.collection]
        guards[guarded.collection] = Guard(
            shared=before.shared | frozenset(p for _, p, grade in told if grade > 0),
            left_out=before.left_out | frozenset(p for _, p, _ in told if leave_out),
        )
    queries_of_all = tuple(dict.fromkeys(texts))
    return {name: replace(guard, queries=queries_of_all) for name, guard in guards.items()}


def _told(name: str, facts: Any) -> list[str]:
    dropped = Dropped(**facts["dropped"], samples=list(facts["samples"]))
    short = facts["short"]
    line = (
        f"train: {name}: {facts['examples']:,} examples of {facts['passages']} passages over "
        f"{facts['queries']:,} queries"
    )
    reasons = [
        (short["without_negatives"], "relevant passages with too few negatives"),
        (short["beyond_runs"], "relevant passages below negatives.relevant_last in every run"),
        (short["without_teacher"], "relevant passages without a teacher's score"),
        (short["filtered"], "negatives that the teacher puts above the relevant passage"),
    ]
    left = [f"{count:,} {what}" for count, what in reasons if count]
    return [line + (f"; left out: {', '.join(left)}" if left else ""), *dropped.lines(name)]
