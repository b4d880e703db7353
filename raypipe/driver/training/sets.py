"""The stores that a training reads, each computed to completion."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raypipe.config.load import resolved_collection
from raypipe.config.parts import Collection, Model, Resources
from raypipe.config.recipe import Recipe
from raypipe.config.training import Training, steps_of
from raypipe.config.training_rules import schedule_problems
from raypipe.config.yaml import dotted
from raypipe.data.queries import doubts_of, read_queries
from raypipe.data.triple_texts import FILES, split_triples
from raypipe.driver.inputs import with_files
from raypipe.driver.training.opened_sets import (
    CollectionGraph,
    OpenedDev,
    OpenedSet,
    model_name,
    relevant_file,
    sources_of,
)
from raypipe.driver.training.phases import Part
from raypipe.driver.training.place import TrainInvocation
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import PretrainedConventions
from raypipe.names import Role, of_training
from raypipe.storage.files import note_in, remove, replace_file, sweep_beside
from raypipe.storage.records import hash_file
from raypipe.storage.store import Stored
from raypipe.training.guard import Guard, guards_of, lines_about
from raypipe.training.job import DevStores, TextStores, TrainStores, conventions_of_training
from raypipe.training.stretches import StretchesStage


def with_ids(recipe: Training, folder: Path) -> Training:
    """The recipe with each file of texts replaced by a collection, queries and triples of ids."""
    collections, train = dict(recipe.collections), dict(recipe.train)
    for name, training_set in recipe.train.items():
        if training_set.texts is None:
            continue
        own, source = folder / name, Path(training_set.texts)
        note = own / "made-from.json"
        for file in (*FILES, note.name):
            sweep_beside(own / file)  # they are written once: no later write sweeps there
        made = {"sha256": hash_file(source), "semantics": 2}
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
        train[name] = training_set.model_copy(update=update)
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


def training_sets(part: Part, start: ModelFolder, at: TrainInvocation) -> Sets:
    """The completed collections, queries, word pieces, runs and guarded examples.

    Each collection has its own workspace in OUT/collections; its stores are with the others.

    Raises:
        InputError: every set whose judgements are of no query, every dev set that could only
            measure 0, and every run without ranks and scores of which ranks or scores are used.
    """
    recipe, sets = part.recipe, Sets()
    graphs = {name: _opened(part, start, at, name) for name in recipe.collections}
    train, dev = _opened_sets(recipe, graphs)
    guards = guards_of(recipe)
    for name, keys in recipe.train.items():
        assert keys.collection is not None
        graph = graphs[keys.collection]
        if recipe.masking is not None:
            lines = _add_text(sets, graph, name)
        else:
            lines = _add_examples(sets, train[name], guards[keys.collection])
            file = relevant_file(graph.made, name)
            if keys.documents is not None and file.exists():
                at.workspace.wrote(file)
        sets.lines += lines
        for line in lines:
            at.say(line)
    for each in dev:
        stored = each.stores()
        sets.dev = (*sets.dev, stored)
        for line in _about_queries(f"dev: {each.name}", each.keys.queries, stored.queries):
            at.say(line)
    for graph in graphs.values():  # all is complete: nothing more is copied
        graph.workspace.forget_sources()
    return sets


def _opened(part: Part, start: ModelFolder, at: TrainInvocation, name: str) -> CollectionGraph:
    """The graph of a collection, without sets yet."""
    recipe, chosen = part.recipe, at.chosen
    folder = part.of_collection(at.workspace, name)
    execution = at.execution.part(folder)
    model, precision = recipe.model, recipe.resources.precision
    written = Recipe(
        format=1,
        name=recipe.name,
        collection=resolved_collection(recipe.collections[name]),
        models={model_name(recipe): Model(path=model.start, revision=model.revision)},
        resources=Resources(precision=precision),
    )
    made = folder / "python-docs"
    named = with_files(written, made)
    if named is not written:
        at.workspace.wrote(made)
    trained = replace(start, conventions=conventions_of_training(model)).in_precision(precision)
    return CollectionGraph(
        named,
        execution,
        needs=chosen.needs,
        models={model_name(recipe): trained},
        training=recipe,
        workspace=execution.workspace,
        phases=part.models,
        made=part.folder(at.workspace, "relevant"),
        say=at.say,
    )


def _opened_sets(
    recipe: Training, graphs: Mapping[str, CollectionGraph]
) -> tuple[dict[str, OpenedSet], list[OpenedDev]]:
    """The training sets by name, none of a pre-training, and the dev sets."""
    train = {
        name: OpenedSet(name, keys, graphs[keys.collection])
        for name, keys in recipe.train.items()
        if keys.collection is not None and keys.queries is not None
    }
    dev = [OpenedDev(name, keys, graphs[keys.collection]) for name, keys in recipe.dev.items()]
    opened: list[OpenedSet | OpenedDev] = [*train.values(), *dev]
    problems = [problem for each in opened for problem in each.problems()]
    if problems:
        raise InputError(problems)
    return train, dev


def _add_examples(sets: Sets, opened: OpenedSet, guard: Guard) -> list[str]:
    """Lines about a set's queries and its examples, which are drawn here."""
    name, graph, stage = opened.name, opened.graph, opened.examples(guard)
    lines = _about_queries(f"train: {name}", opened.keys.queries, stage.queries)
    examples = graph.stores.ensure(of_training(Role.EXAMPLES, name), stage)
    sets.train = (*sets.train, TrainStores(examples, *graph.trained_tokens(opened.query_set)))
    facts = examples.manifest.records[0].facts
    sets.facts[name] = {**facts, "negatives_from": sources_of(opened.keys)}
    return [*lines, *lines_about(name, facts)]


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


def _add_text(sets: Sets, graph: CollectionGraph, name: str) -> list[str]:
    """Lines about a pre-training's text, which is cut here."""
    masking, stage = graph.training.masking, stretches_stage(name, graph)
    assert masking is not None
    stretches = graph.stores.ensure(of_training(Role.EXAMPLES, name), stage)
    sets.texts = (*sets.texts, TextStores(stretches, stage.tokens))
    facts, held_out = stretches.manifest.records[0].facts, masking.held_out
    num_inputs = facts["examples"]
    sets.facts[name] = {**facts, "examples": num_inputs - held_out, "held_out": held_out}
    return [
        f"text: {name}: {facts['pieces']:,} word pieces in {num_inputs:,} inputs, {held_out:,} of "
        "them held out"
    ]


def stretches_stage(name: str, graph: CollectionGraph) -> StretchesStage:
    """The stage that cuts a pre-training's text, so that each stretch fits an input whole."""
    recipe = graph.training
    conventions, masking = conventions_of_training(recipe.model), recipe.masking
    assert isinstance(conventions, PretrainedConventions) and masking is not None
    specials, least = (3, 2) if masking.next_sentence else (2, 1)
    return StretchesStage(
        tokens=graph.tokens(model_name(recipe)),
        limit=conventions.total_limit - specials,
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
    whole = recipe.with_steps(num_examples)
    say(f"train: {recipe.epochs:g} epochs of {num_examples:,} examples: {steps_of(whole):,} steps")
    problems = [f"{dotted(problem.key)}: {problem.text}" for problem in schedule_problems(whole)]
    if problems:
        raise InputError(problems)
    return whole
