"""The stores that a training reads, each computed to completion."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raypipe.config import Training
from raypipe.config.parts import Collection
from raypipe.config.training import DevSet, Negatives, Pairs, steps_of
from raypipe.config.training_rules import schedule_problems
from raypipe.config.yaml import dotted
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import doubts_of, read_queries
from raypipe.data.triple_texts import FILES, split_triples
from raypipe.driver.execute import Execution
from raypipe.driver.inputs import with_files
from raypipe.driver.models import opened
from raypipe.driver.proof.proof import computable
from raypipe.driver.recipe.fit import refuse_unfit
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.training.parts import (
    is_model,
    model_name,
    parts_recipe,
    sources_of,
    teacher_of,
    write_relevant,
)
from raypipe.driver.training.phases import Part
from raypipe.driver.training.place import TrainInvocation
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import PretrainedConventions
from raypipe.names import Role, of_training
from raypipe.stages.stage import Needs, Sizing
from raypipe.storage.files import note_in, remove, replace_file, sweep_beside
from raypipe.storage.records import hash_file
from raypipe.storage.store import Stored
from raypipe.training.examples_stage import ExamplesStage, OfDocuments
from raypipe.training.guard import Guard, guards_of, lines_about
from raypipe.training.job import (
    DevPassages,
    DevStores,
    TextStores,
    TrainStores,
    conventions_of_training,
)
from raypipe.training.losses import BATCH_LOSSES
from raypipe.training.stretches import StretchesStage
from raypipe.vocabulary import K_MAX, Unit


def with_ids(recipe: Training, folder: Path) -> Training:
    """The recipe with each file of texts replaced by a collection, queries and triples of ids."""
    collections, train = dict(recipe.collections), dict(recipe.train)
    for name, wanted in recipe.train.items():
        if wanted.texts is None:
            continue
        own, source = folder / name, Path(wanted.texts)
        note = own / "made-from.json"
        for file in (*FILES, note.name):
            sweep_beside(own / file)  # they are written once: no later write sweeps there
        made = {"sha256": hash_file(source), "semantics": 1}
        if note_in(note) != made:
            remove(note)
            split_triples(source, own)
            replace_file(note, json.dumps(made).encode())
        passages = (str((own / "passages.tsv").absolute()),)
        collections[name] = Collection(format="msmarco-v1", input=passages)
        update = {
            "texts": None,
            "collection": name,
            "queries": str((own / "queries.tsv").absolute()),
            "triples": str((own / "triples.tsv").absolute()),
        }
        train[name] = wanted.model_copy(update=update)
    return recipe.model_copy(update={"collections": collections, "train": train})


@dataclass
class Sets:
    """The stores of every training and dev set, and what the log and the table say about them."""

    train: tuple[TrainStores, ...] = ()
    texts: tuple[TextStores, ...] = ()
    """Of a pre-training, in the place of `train`."""
    dev: tuple[DevStores, ...] = ()
    lines: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Collection:
    """One of the training's collections, in its own workspace."""

    graph: Graph
    execution: Execution


def training_sets(part: Part, start: ModelFolder, at: TrainInvocation) -> Sets:
    """The completed collections, queries, word pieces, runs and guarded examples.

    Each collection has its own workspace in OUT/collections; its stores are with the others.
    """
    recipe = part.recipe
    collections = {name: _opened(part, start, at, name) for name in recipe.collections}
    _refuse_unusable(recipe, {name: own.graph for name, own in collections.items()})
    guards = guards_of(recipe)
    sets = Sets()
    for name, wanted in recipe.train.items():
        assert wanted.collection is not None
        own = collections[wanted.collection]
        if recipe.masking is not None:
            lines = _add_text(sets, recipe, own, name)
        else:
            stage = _examples_stage(part, at, own, name, guards[wanted.collection])
            lines = [
                *_about_queries(f"train: {name}", wanted.queries, stage.queries),
                *_add_examples(sets, recipe, own, stage),
            ]
        sets.lines += lines
        for line in lines:
            at.say(line)
    for name, dev in recipe.dev.items():
        stored = _dev(collections[dev.collection].graph, recipe, name, dev)
        sets.dev = (*sets.dev, stored)
        for line in _about_queries(f"dev: {name}", dev.queries, stored.queries):
            at.say(line)
    for own in collections.values():  # all is complete: nothing more is copied
        own.execution.workspace.forget_sources()
    return sets


def _opened(part: Part, start: ModelFolder, at: TrainInvocation, name: str) -> _Collection:
    recipe, chosen = part.recipe, at.chosen
    folder = part.of_collection(at.workspace, name)
    execution = Execution(
        workspace=at.workspace.part(folder),
        backends=at.backends,
        sizing=Sizing(num_actors=chosen.num_actors),
        watcher=at.watcher,
        should_stop=at.should_stop,
        on_change=at.say,
    )
    relevant = part.folder(at.workspace, "relevant")
    wanted = parts_recipe(recipe, name, scorers=part.models, relevant=relevant)
    made = folder / "python-docs"
    named = with_files(wanted, made)
    if named is not wanted:
        at.workspace.wrote(made)
    model = replace(start, conventions=conventions_of_training(recipe.model))
    precision = recipe.resources.precision
    models = {model_name(recipe): model.in_precision(precision)}
    others = {n: opened(m, precision) for n, m in named.models.items() if n not in models}
    models |= computable(others, at.workspace.stores, at.say)
    needs = Needs(num_gpus=1.0 if chosen.device == "cuda" else 0.0, threads=chosen.threads)
    return _Collection(Graph(named, execution, needs=needs, models=models), execution)


def _refuse_unusable(recipe: Training, graphs: Mapping[str, Graph]) -> None:
    """Returns nothing if judgements fit their queries, and runs have the order that is used.

    Raises:
        InputError: every set whose judgements are of no query, every dev set that could only
            measure 0, and every run without ranks and scores of which ranks or scores are used.
    """
    problems: list[str] = []
    for name, wanted in recipe.train.items():
        if wanted.collection is None or wanted.queries is None:
            continue
        graph, key, query_set = graphs[wanted.collection], f"train.{name}", f"train-{name}"
        if wanted.qrels is not None and not graph.queries(query_set).num_rows:
            problems.append(
                f"{key}: {wanted.queries}: none of its queries is judged in {wanted.qrels}; "
                "expected the judgements of these queries"
            )
            continue
        if (drawn := wanted.negatives or wanted.pairs) is not None:
            for number, file in enumerate(drawn.runs):
                longest = graph.system(f"{query_set}-run-{number}", query_set).unordered
                problems += _cut(file, longest, f"{key}.{_window(drawn)}.last", drawn.last)
                if longest and isinstance(drawn, Negatives):
                    problems += _of_ranks(file, f"{key}.negatives", drawn)
        scored: dict[str, tuple[str, str]] = {}
        if wanted.teacher is not None and not is_model(wanted.teacher):
            scored[f"{query_set}-teacher"] = (f"{key}.teacher", wanted.teacher)
        for number, file in enumerate(() if wanted.blend is None else wanted.blend.runs):
            scored[f"{query_set}-blend-{number}"] = (f"{key}.blend.runs", file)
        for stage, (place, file) in scored.items():
            if graph.system(stage, query_set).unordered:
                problems.append(
                    f"{place}: {file}: expected a score for each passage, found candidates "
                    "without ranks and scores; score them first"
                )
    for name, dev in recipe.dev.items():
        graph, query_set = graphs[dev.collection], f"dev-{name}"
        unit: Unit = "passages" if dev.documents is None else "documents"
        try:
            refuse_unfit(graph, {(query_set, unit): read_qrels(Path(dev.qrels))})
        except InputError as error:
            problems += [f"dev.{name}: {problem}" for problem in error.problems]
            continue
        longest = graph.system(f"{query_set}-run", query_set).unordered
        problems += _cut(dev.run, longest, f"dev.{name}.k", dev.k)
    if problems:
        raise InputError(problems)


def _window(drawn: Negatives | Pairs) -> str:
    return "negatives" if isinstance(drawn, Negatives) else "pairs"


def _cut(file: str, longest: int, key: str, last: int) -> list[str]:
    """A problem if `last` cuts the lists, up to `longest`, of a run without an order."""
    if last >= longest:
        return []
    return [
        f"{key}: {file} has candidates without ranks and scores, up to {longest:,} for a query, of "
        f"which {last:,} would take the first of the file; write {longest} or more, or give the "
        "file a column rank or score"
    ]


def _of_ranks(file: str, key: str, window: Negatives) -> list[str]:
    """Problems with the other keys that count ranks, which a run without an order lacks."""
    used = {"first": window.first > 1, "relevant_last": window.relevant_last is not None}
    return [
        f"{key}.{name}: {file} has candidates without ranks and scores; remove it, or give the "
        "file a column rank or score"
        for name, is_used in used.items()
        if is_used
    ]


def _examples_stage(
    part: Part, at: TrainInvocation, own: _Collection, name: str, guard: Guard
) -> ExamplesStage:
    """The stage that makes a set's examples, over the completed stores that it reads."""
    recipe, graph = part.recipe, own.graph
    wanted, query_set = recipe.train[name], f"train-{name}"
    runs = tuple(
        own.graph.system(f"{query_set}-run-{number}", query_set).stored
        for number in range(len(sources_of(wanted)))
    )
    taught = last = None
    if wanted.teacher is not None:
        if not is_model(wanted.teacher):
            _, last = teacher_of(wanted.teacher)
        taught = own.graph.system(f"{query_set}-teacher", query_set).stored
    first_stages = tuple(
        own.graph.system(f"{query_set}-blend-{number}", query_set).stored
        for number in range(0 if wanted.blend is None else len(wanted.blend.runs))
    )
    documents = None
    if wanted.documents is not None:
        scores = None
        if wanted.documents.scored_by is not None:
            relevant = part.folder(at.workspace, "relevant")
            at.workspace.wrote(write_relevant(relevant, name, wanted))
            scores = own.graph.system(f"{query_set}-scored", query_set).stored
        documents = OfDocuments(graph.passage_map(), graph.ids(), scores)
    return ExamplesStage(
        wanted=wanted,
        collection=graph.collection() if documents is None else graph.documents(),
        ids=graph.ids() if documents is None else graph.document_ids(),
        documents=documents,
        queries=graph.queries(query_set),
        runs=runs,
        teacher=taught,
        teacher_last=last,
        first_stages=first_stages,
        guard=guard,
        seed=recipe.seed,
        name=name,
        in_batch=recipe.loss.name in BATCH_LOSSES,
    )


def _add_examples(
    sets: Sets, recipe: Training, own: _Collection, stage: ExamplesStage
) -> list[str]:
    """Lines about the examples, which are drawn here."""
    name = stage.name
    examples = own.execution.ensure(of_training(Role.EXAMPLES, name), stage)
    tokens = _tokens(own.graph, recipe, f"train-{name}")
    sets.train = (*sets.train, TrainStores(examples, *tokens))
    facts = examples.manifest.records[0].facts
    sets.facts[name] = {**facts, "negatives_from": sources_of(stage.wanted)}
    return lines_about(name, facts)


def _about_queries(name: str, file: str | None, kept: Stored) -> list[str]:
    """Lines about the queries of a file: those that the judgements do not name, and doubts.

    BEIR has one file of queries for all its splits.
    """
    if file is None:
        return []
    queries = read_queries(Path(file))
    count = len(queries) - kept.num_rows
    lines = [f"left out {count:,} queries without judgements"] if count else []
    return [f"{name}: {line}" for line in (*lines, *doubts_of(queries))]


def _add_text(sets: Sets, recipe: Training, own: _Collection, name: str) -> list[str]:
    """Lines about a pre-training's text, which is cut here."""
    assert recipe.masking is not None
    held_out, stage = recipe.masking.held_out, stretches_stage(recipe, name, own.graph)
    stretches = own.execution.ensure(of_training(Role.EXAMPLES, name), stage)
    sets.texts = (*sets.texts, TextStores(stretches, stage.tokens))
    facts = stretches.manifest.records[0].facts
    num_inputs = facts["examples"]
    sets.facts[name] = {**facts, "examples": num_inputs - held_out, "held_out": held_out}
    told = (
        f"{facts['pieces']:,} word pieces in {num_inputs:,} inputs, {held_out:,} of them held out"
    )
    return [f"text: {name}: {told}"]


def stretches_stage(recipe: Training, name: str, graph: Graph) -> StretchesStage:
    """The stage that cuts a pre-training's text, so that each stretch fits an input whole."""
    found, masking = conventions_of_training(recipe.model), recipe.masking
    assert isinstance(found, PretrainedConventions) and masking is not None
    specials, least = (3, 2) if masking.next_sentence else (2, 1)
    return StretchesStage(
        tokens=graph.tokens(model_name(recipe)),
        limit=found.total_limit - specials,
        joined=masking.joined,
        least=least,
        name=name,
    )


def with_length(recipe: Training, sets: Sets, say: Callable[[str], None]) -> Training:
    """The recipe with its number of steps, which epochs give once the examples are known.

    Raises:
        InputError: a schedule that is longer than that.
    """
    if recipe.epochs is None:
        return recipe
    num_examples = sum(facts["examples"] for facts in sets.facts.values())
    found = recipe.with_steps(num_examples)
    say(f"train: {recipe.epochs:g} epochs of {num_examples:,} examples: {steps_of(found):,} steps")
    problems = [f"{dotted(problem.key)}: {problem.text}" for problem in schedule_problems(found)]
    if problems:
        raise InputError(problems)
    return found


def _dev(graph: Graph, recipe: Training, name: str, dev: DevSet) -> DevStores:
    query_set = f"dev-{name}"
    run = graph.system(f"{query_set}-run", query_set).stored
    of_documents = None
    if dev.documents is not None:
        passages = graph.system(f"{query_set}-passages", query_set).stored
        of_documents = DevPassages(
            passages, graph.passage_map(), dev.documents.method, dev.documents.k or K_MAX
        )
    query_tokens, passage_tokens = _tokens(graph, recipe, query_set)
    return DevStores(
        run=run,
        queries=graph.queries(query_set),
        collection=graph.collection() if of_documents is None else graph.documents(),
        documents=of_documents,
        query_tokens=query_tokens,
        passage_tokens=passage_tokens,
        qrels=dev.qrels,
        qrels_sha256=hash_file(Path(dev.qrels)),
        k=dev.k,
        queries_at_most=dev.queries_at_most,
    )


def _tokens(graph: Graph, recipe: Training, query_set: str) -> tuple[Stored, Stored]:
    name = model_name(recipe)
    return graph.tokens(name, query_set), graph.tokens(name)
