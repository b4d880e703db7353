"""Everything that a training's worker is sent."""

from dataclasses import dataclass, replace
from functools import cached_property

from raypipe.config.training import TrainedModel, Training
from raypipe.errors import InputError
from raypipe.models.folder.adapters import WEIGHTS, adapter_folder
from raypipe.models.folder.files import initializer_range
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import (
    PRESETS,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
    conventions_from,
    conventions_problems,
)
from raypipe.names import Role, StoreName, of_training
from raypipe.storage.records import hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

SEMANTICS = 3


@dataclass(frozen=True)
class TrainStores:
    """A training set's stores."""

    examples: Stored
    query_tokens: Stored
    passage_tokens: Stored


@dataclass(frozen=True)
class TextStores:
    """A pre-training's stores of one training set."""

    stretches: Stored
    tokens: Stored


@dataclass(frozen=True)
class DevPassages:
    """The passages of a dev set's documents, and how a document's score comes from theirs."""

    run: Stored
    """All passages of the first k documents."""
    map: Stored
    method: str
    k: int
    """Of k-max-avgp."""


@dataclass(frozen=True)
class DevStores:
    """A dev set's stores, and its judgements' file."""

    run: Stored
    queries: Stored
    collection: Stored
    query_tokens: Stored
    passage_tokens: Stored
    qrels: str
    qrels_sha256: str
    k: int
    queries_at_most: int | None
    documents: DevPassages | None = None
    """Where the run and the judgements name documents; `collection` then holds those."""


@dataclass(frozen=True)
class Job:
    """One training."""

    recipe: Training
    start: ModelFolder
    train: tuple[TrainStores, ...]
    dev: tuple[DevStores, ...]
    storage: Storage
    phase: str | None = None
    """The phase of the recipe that it is, if the recipe has phases."""
    new_head: bool = False
    """Whether a reranker's head is drawn, though the starting weights may have one: the phase
    before trained another kind of model."""
    texts: tuple[TextStores, ...] = ()
    """Of a pre-training, which has no training and dev sets of queries."""

    @property
    def is_pretraining(self) -> bool:
        """Whether masked words are learnt, and not queries with passages."""
        return isinstance(self.conventions, PretrainedConventions)

    @property
    def name(self) -> StoreName:
        """The store's name."""
        return of_training(Role.WEIGHTS, self.recipe.name, self.phase)

    @property
    def store(self) -> str:
        """The store's name as text."""
        return str(self.name)

    @cached_property
    def folder(self) -> str:
        """The folder of its checkpoints in the stores."""
        return f"{self.store}/{self.spec.fingerprint()}"

    @property
    def conventions(self) -> AnyConventions:
        """The settings of the trained model."""
        found = conventions_of_training(self.recipe.model)
        blend = self.recipe.loss.blend
        return replace(found, blend=blend) if isinstance(found, PairConventions) else found

    @cached_property
    def spec(self) -> StageSpec:
        """The starting weights, examples, dev sets and settings, but not where it runs."""
        recipe = self.recipe
        body = recipe.model_dump(
            mode="json",
            include={"model", "loss", "steps", "schedule_steps", "batch", "accumulation"}
            | {"optimiser", "dropout", "masking", "seed", "validate_"},
            exclude={"model": {"settings", "start", "start_saw"}},
        )
        body["conventions"] = self.conventions.to_json()
        if recipe.model.adapter is not None and recipe.model.adapter.start is not None:
            del body["model"]["adapter"]["start"]
            body["adapter_sha256"] = hash_file(adapter_folder(recipe.model.adapter.start) / WEIGHTS)
        body["start_sha256"] = self.start.weights_sha256
        body["new_head"] = self.new_head
        body["start_config"] = self.start.forward_config()
        if not isinstance(self.conventions, Conventions):  # needed to initialise a head
            body["start_config"]["initializer_range"] = initializer_range(self.start.config())
        body["tokenizer_sha256"] = self.start.tokenizer_sha256
        body["precision"] = recipe.resources.precision
        if self._has_other_norms:  # they were drawn and decayed as weights once
            body["normalisations"] = "as BERT's"
        inputs = {}
        for number, text in enumerate(self.texts):
            for name, stored in vars(text).items():
                inputs[f"text.{number}.{name}"] = stored.identity
        for number, train in enumerate(self.train):
            for name, stored in vars(train).items():
                inputs[f"train.{number}.{name}"] = stored.identity
        for number, dev in enumerate(self.dev):
            inputs[f"dev.{number}.run"] = dev.run.identity
            inputs[f"dev.{number}.queries"] = dev.query_tokens.identity
            inputs[f"content:dev.{number}.qrels"] = dev.qrels_sha256
            body[f"dev.{number}"] = [dev.k, dev.queries_at_most]
            if dev.documents is not None:
                inputs[f"dev.{number}.passages"] = dev.documents.run.identity
                body[f"dev.{number}.documents"] = [dev.documents.method, dev.documents.k]
        return StageSpec("train", SEMANTICS, body, inputs)

    @property
    def _has_other_norms(self) -> bool:
        """Whether trained normalisations have other names than BERT's LayerNorm."""
        model_type, conventions = self.start.config().get("model_type"), self.conventions
        if model_type in ("distilbert", "modernbert"):
            return True
        has_words = isinstance(conventions, PretrainedConventions) or conventions.is_sparse
        return model_type != "bert" and has_words  # RoBERTa's masked-word head alone


def conventions_of_training(model: TrainedModel) -> AnyConventions:
    """The settings of the preset, or those that the recipe states, with its overrides.

    Raises:
        InputError: they contradict each other, or cut embeddings, which no step does.
    """
    if (model.settings or {}).get("truncate_dim") is not None:
        raise InputError(
            "model.settings: truncate_dim: a training cuts no embeddings; name here the start's "
            "other settings, and cut in the recipe that encodes"
        )
    if (model.settings or {}).get("query_table") is not None:
        raise InputError(
            "model.settings: query_table: a training encodes queries by the model that it trains; "
            "remove it here, and name the table in the recipe that encodes"
        )
    for name in ("blend", "blend_over_bm25"):
        if (model.settings or {}).get(name):
            raise InputError(
                f"model.settings: {name}: a training's is loss.blend; write it there, and remove "
                "it here"
            )
    names = ("query_limit", "passage_limit", "total_limit", "segment_row")
    if model.preset is None:
        conventions = conventions_from(model.settings or {}, "model.settings")
    else:
        conventions = PRESETS[model.preset]
    given = {name: getattr(model, name) for name in names if getattr(model, name) is not None}
    if isinstance(conventions, PairConventions):
        label = 1 if conventions.relevant_label is None else conventions.relevant_label
        given["relevant_label"] = None if model.head == 1 else label
        if conventions.kind == "duo":
            given.setdefault("segment_row", "copy")
    elif isinstance(conventions, Conventions) and "total_limit" in given:
        raise InputError("model.total_limit: an encoder has query_limit and passage_limit")
    changed = replace(conventions, **given)
    problems = conventions_problems(changed)
    if problems:
        raise InputError([f"model.{problem}" for problem in problems])
    return changed
