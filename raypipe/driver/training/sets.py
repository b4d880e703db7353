"""The stores that a training reads, each computed to completion."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raypipe.config import Training
from raypipe.config.training.recipe import steps_of
from raypipe.config.training.rules import schedule_problems
from raypipe.config.training.sets import DevSet
from raypipe.config.yaml.document import dotted
from raypipe.driver.machine.backends import LazyBackends
from raypipe.driver.machine.devices import Devices
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.execute import Execution
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.recipe.watching import Watcher
from raypipe.driver.recipe.written.builtin import with_files
from raypipe.driver.training.part import Part
from raypipe.driver.training.parts import model_name, parts_recipe, runs_of
from raypipe.driver.training.relevant import write_relevant
from raypipe.driver.training.teachers import teacher_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RaypipeError
from raypipe.models.folder.conventions import PretrainedConventions
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName, of_training
from raypipe.stages.stage import Needs, Sizing, Stage
from raypipe.storage.records import hash_file
from raypipe.storage.stored import Stored
from raypipe.training.examples.guarding.guards import guards_of, lines_about
from raypipe.training.examples.sources import OfDocuments
from raypipe.training.examples.stage import ExamplesStage
from raypipe.training.job import (
    DevPassages,
    DevStores,
    TextStores,
    TrainStores,
    conventions_of_training,
)
from raypipe.training.pretraining.stage import StretchesStage
from raypipe.training.steps.objective import BATCH_LOSSES
from raypipe.vocabulary import K_MAX


@dataclass
class Sets:
    """The stores of every training and dev set, and what the log and the table say about them."""

    train: tuple[TrainStores, ...] = ()
    texts: tuple[TextStores, ...] = ()
    """Of a pre-training, in the place of `train`."""
    dev: tuple[DevStores, ...] = ()
    lines: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def training_sets(
    part: Part,
    start: ModelFolder,
    workspace: Workspace,
    backends: LazyBackends,
    chosen: Devices,
    watcher: Watcher,
    say: Callable[[str], None],
    should_stop: Callable[[], RaypipeError | None],
) -> Sets:
    """The completed collections, queries, word pieces, runs and guarded examples.

    Each collection has its own workspace in OUT/collections; its stores are with the others.
    """
    recipe = part.recipe
    model = replace(start, conventions=conventions_of_training(recipe.model))
    graphs, executions = {}, {}
    relevant = part.folder(workspace, "relevant")
    for name in recipe.collections:
        folder = part.of_collection(workspace, name)
        own = workspace.part(folder)
        executions[name] = Execution(
            workspace=own,
            backends=backends,
            sizing=Sizing(num_actors=chosen.num_actors),
            watcher=watcher,
            should_stop=should_stop,
            on_change=say,
        )
        wanted_parts = parts_recipe(recipe, name, scorers=part.models, relevant=relevant)
        made = folder / "python-docs"
        named = with_files(wanted_parts, made)
        if named is not wanted_parts:
            workspace.wrote(made)
        models = {model_name(recipe): model}
        needs = Needs(num_gpus=1.0 if chosen.device == "cuda" else 0.0, threads=chosen.threads)
        graphs[name] = Graph(Basis(named, executions[name], needs=needs, models=models))
    guards = guards_of(recipe)
    sets = Sets()
    for name, wanted in recipe.train.items():
        assert wanted.collection is not None
        graph = graphs[wanted.collection]
        basis = graph.basis
        if recipe.masking is not None:
            ensure = executions[wanted.collection].ensure
            of_text = stretches_stage(recipe, name, basis)
            _add_text(sets, name, of_text, recipe.masking.held_out, ensure, say)
            continue
        query_set = f"train-{name}"
        runs = runs_of(wanted)
        found = [
            graph.system(f"{query_set}-run-{number}", query_set).stored
            for number in range(len(runs))
        ]
        taught = last = None
        if wanted.teacher is not None:
            _, last = teacher_of(wanted.teacher)
            taught = graph.system(f"{query_set}-teacher", query_set).stored
        of_documents = None
        if wanted.documents is not None:
            scores = None
            if wanted.documents.scored_by is not None:
                workspace.wrote(write_relevant(relevant, name, wanted))
                scores = graph.system(f"{query_set}-scored", query_set).stored
            of_documents = OfDocuments(basis.passage_map(), scores)
        stage = ExamplesStage(
            wanted=wanted,
            collection=basis.collection() if of_documents is None else basis.documents(),
            ids=basis.ids() if of_documents is None else basis.document_ids(),
            documents=of_documents,
            queries=basis.queries(query_set),
            runs=tuple(found),
            teacher=taught,
            teacher_last=last,
            guard=guards[wanted.collection],
            seed=recipe.seed,
            name=name,
            in_batch=recipe.loss.name in BATCH_LOSSES,
        )
        store = of_training(Role.EXAMPLES, name)
        examples = executions[wanted.collection].ensure(store, stage)
        tokens = _tokens(basis, recipe, query_set)
        sets.train = (*sets.train, TrainStores(examples, *tokens))
        facts = examples.manifest.records[0].facts
        sets.facts[name] = {**facts, "negatives_from": list(runs)}
        lines = lines_about(name, facts)
        sets.lines += lines
        for line in lines:
            say(line)
    for name, dev in recipe.dev.items():
        sets.dev = (*sets.dev, _dev(graphs[dev.collection], recipe, name, dev))
    for execution in executions.values():  # all is complete: nothing more is copied
        execution.workspace.forget_sources()
    return sets


def _add_text(
    sets: Sets,
    name: str,
    stage: StretchesStage,
    held_out: int,
    ensure: Callable[[StoreName, Stage], Stored],
    say: Callable[[str], None],
) -> None:
    stretches = ensure(of_training(Role.EXAMPLES, name), stage)
    sets.texts = (*sets.texts, TextStores(stretches, stage.tokens))
    facts = stretches.manifest.records[0].facts
    num_inputs = facts["examples"]
    sets.facts[name] = {**facts, "examples": num_inputs - held_out, "held_out": held_out}
    line = f"text: {name}: {facts['pieces']:,} word pieces in {num_inputs:,} inputs"
    line += f", {held_out:,} of them held out"
    sets.lines.append(line)
    say(line)


def stretches_stage(recipe: Training, name: str, basis: Basis) -> StretchesStage:
    """The stage that cuts a pre-training's text, so that each stretch fits an input whole."""
    found, masking = conventions_of_training(recipe.model), recipe.masking
    assert isinstance(found, PretrainedConventions) and masking is not None
    specials, least = (3, 2) if masking.next_sentence else (2, 1)
    return StretchesStage(
        tokens=basis.tokens(model_name(recipe)),
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
    basis = graph.basis
    of_documents = None
    if dev.documents is not None:
        passages = graph.system(f"{query_set}-passages", query_set).stored
        of_documents = DevPassages(
            passages, basis.passage_map(), dev.documents.method, dev.documents.k or K_MAX
        )
    query_tokens, passage_tokens = _tokens(basis, recipe, query_set)
    return DevStores(
        run=run,
        queries=basis.queries(query_set),
        collection=basis.collection() if of_documents is None else basis.documents(),
        documents=of_documents,
        query_tokens=query_tokens,
        passage_tokens=passage_tokens,
        qrels=dev.qrels,
        qrels_sha256=hash_file(Path(dev.qrels)),
        k=dev.k,
        queries_at_most=dev.queries_at_most,
    )


def _tokens(basis: Basis, recipe: Training, query_set: str) -> tuple[Stored, Stored]:
    name = model_name(recipe)
    return basis.tokens(name, query_set), basis.tokens(name)
