"""The stores that a training reads, each computed to completion."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raypipe.config import Training
from raypipe.config.parts import Collection
from raypipe.config.training import DevSet, steps_of
from raypipe.config.training_rules import schedule_problems
from raypipe.config.yaml import dotted
from raypipe.data.queries import read_queries
from raypipe.data.triple_texts import FILES, split_triples
from raypipe.driver.execute import Execution
from raypipe.driver.inputs import with_files
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
from raypipe.vocabulary import K_MAX


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
                *_unjudged(f"train: {name}", wanted.queries, stage.queries),
                *_add_examples(sets, recipe, own, stage),
            ]
        sets.lines += lines
        for line in lines:
            at.say(line)
    for name, dev in recipe.dev.items():
        stored = _dev(collections[dev.collection].graph, recipe, name, dev)
        sets.dev = (*sets.dev, stored)
        for line in _unjudged(f"dev: {name}", dev.queries, stored.queries):
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
    models = {model_name(recipe): model.in_precision(recipe.resources.precision)}
    needs = Needs(num_gpus=1.0 if chosen.device == "cuda" else 0.0, threads=chosen.threads)
    return _Collection(Graph(named, execution, needs=needs, models=models), execution)


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


def _unjudged(name: str, file: str | None, kept: Stored) -> list[str]:
    """A line about the queries of a file that the judgements do not name, if there are any.

    BEIR has one file of queries for all its splits.
    """
    count = 0 if file is None else len(read_queries(Path(file))) - kept.num_rows
    return [f"{name}: left out {count:,} queries without judgements"] if count else []


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
