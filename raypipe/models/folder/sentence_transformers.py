"""Settings in the files of sentence-transformers: an encoder's modules, and what others share.

Each setting has its source. An encoder's dense layers are folders of their own, such as 2_Dense.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.files import part_of, read_object, tensor_shapes
from raypipe.models.folder.modules import (
    QUERY_TABLE,
    ROUTER,
    ROUTES,
    TRANSFORMERS,
    modules_of,
    routes_of,
    transformer_folder,
)
from raypipe.models.folder.settings import (
    SPLADE,
    SPLADE_LOG,
    AnyConventions,
    Conventions,
    Flag,
    one_of,
    schema_problems,
)
from raypipe.models.tensors import Config
from raypipe.models.tokenizer import read_tokenizer, tokenizer_file, tokenizer_sha256
from raypipe.storage.records import hash_once
from raypipe.text.inputs import Layout
from raypipe.text.prompts import sliced
from raypipe.text.tokenize import encoded

STATED = " prompts."
"""In the source of a prefix that the folder's own files state, if only as empty text."""
LARGEST_LENGTH = 1e300
"""transformers writes 1e30 for a tokenizer without a limit; an infinite number is none either."""
SETTINGS = "config_sentence_transformers.json"
POOLINGS = {"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last"}
"""raypipe's word by sentence-transformers'."""
OLD_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The keys of releases before 6; later ones write `pooling_mode`."""
SPLADE_POOLING = "SpladePooling"
WEIGHTS = "model.safetensors"
NORMALISE = "normalise"
"""The word for a step that is no layer and divides a vector by its length."""
TANH = "torch.nn.Tanh"
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    TANH: "tanh",
}
"""raypipe's word by sentence-transformers' name, which for a layer without one is Tanh."""
OTHER_PROMPTS = ("passage", "corpus")
"""Names of prompts for passages that encode_document would look for if `document` had no place."""
EMBEDDING = "sentence_embedding"
"""sentence-transformers' name of what a module of a text's vector reads and writes."""


@dataclass(slots=True)
class Evidence:
    """The settings read so far; each open field is a problem."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Field -> why it is open; raypipe.json can give the field."""
    refusals: list[str] = field(default_factory=list)
    """Problems that no setting can solve."""
    notes: list[str] = field(default_factory=list)

    def add(self, source: str, **values: Any) -> None:
        """Add values from one source."""
        self.values |= values
        self.sources |= dict.fromkeys(values, source)


def read_sentence_transformer(folder: Path) -> Evidence:
    """The settings of its `encode`: one text per row, each in segment 0."""
    evidence = Evidence()
    inner = transformer_folder(folder)
    modules = modules_of(folder)
    names = [name for name, _ in modules]
    sparse = names[:1] in [[each] for each in TRANSFORMERS] and names[1:] == [SPLADE_POOLING]
    routes = routes_of(folder)
    by_route = {route: [name for name, _ in each] for route, each in routes.items()}
    by_table = {"document": names, "query": [QUERY_TABLE]}
    if names == [ROUTER] or (routes and not (sparse and by_route == by_table)):
        shown = "; ".join(f"{route}: {', '.join(each)}" for route, each in by_route.items())
        evidence.refusals.append(
            f"{folder / ROUTES}: expected the routes query, of {QUERY_TABLE} alone, and document, "
            f"of a Transformer and {SPLADE_POOLING}, found {shown or 'none'}"
        )
        return evidence
    of_vectors = names[:2] == ["Transformer", "Pooling"] and {*names[2:]} <= {"Dense", "Normalize"}
    if not sparse and not of_vectors:
        evidence.refusals.append(
            f"{folder / 'modules.json'}: expected Transformer, Pooling, and then at most Dense and "
            f"Normalize, or {SPLADE_POOLING} alone, found {', '.join(names)}"
        )
        return evidence
    evidence.add("modules.json", kind="encoder")
    read = _read_splade if sparse else _read_pooling
    read(folder, folder / modules[1][1] / "config.json", evidence)
    read_finishing(folder, modules[2:], evidence)
    evidence.add("one text alone is segment 0", query_segment=0, passage_segment=0)
    config = read_object(inner / "config.json")
    layout = check_tokenizer(inner, evidence, pair=False)
    specials = 2 if layout is None else layout.num_specials
    limit, source = token_limit(inner, config)
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > specials:
        evidence.add(source, query_limit=limit - specials, passage_limit=limit - specials)
    else:
        problem = (
            f"no max_seq_length, model_max_length or positions above {specials}, found {limit!r}"
        )
        evidence.problems |= {"query_limit": problem, "passage_limit": problem}
    if routes:
        _read_table(folder / routes["query"][0][1], inner, evidence)
    read_prompts(folder, evidence)
    _check_lower_case(inner, evidence)
    return evidence


def _read_pooling(folder: Path, path: Path, evidence: Evidence) -> None:
    body = read_object(path)
    modes: Any = body.get("pooling_mode", [OLD_POOLINGS[n] for n in OLD_POOLINGS if body.get(n)])
    modes = [str(mode) for mode in (modes if isinstance(modes, list) else [modes])]
    where = path.relative_to(folder) if path.is_relative_to(folder) else path
    if len(modes) != 1 or modes[0] not in POOLINGS:
        evidence.refusals.append(
            f"{path}: pooling: expected one of {', '.join(POOLINGS)}, found "
            f"{' and '.join(modes) or 'none'}"
        )
    else:
        evidence.add(f"{where}", pooling=POOLINGS[modes[0]])
    prompted = folder / SETTINGS
    prompts = part_of(read_object(prompted), "prompts", prompted)
    if body.get("include_prompt") is False and any(prompts.values()):
        evidence.refusals.append(f"{path}: include_prompt: expected true, found false with prompts")


def _read_splade(folder: Path, path: Path, evidence: Evidence) -> None:
    body = read_object(path)
    known = {"pooling_strategy": ("max",), "activation_function": ("relu", "log1p_relu")}
    for key, words in known.items():
        if body.get(key, words[0]) not in words:
            expected = " or ".join(words)
            evidence.refusals.append(f"{path}: {key}: expected {expected}, found {body[key]!r}")
    log = body.get("activation_function") == "log1p_relu"
    evidence.add(str(path.relative_to(folder)), pooling=SPLADE_LOG if log else SPLADE)
    inner = transformer_folder(folder) / "sentence_bert_config.json"
    task = read_object(inner).get("transformer_task", "fill-mask")
    if task != "fill-mask":
        evidence.refusals.append(f"{inner}: transformer_task: expected fill-mask, found {task!r}")
    settings = read_object(folder / SETTINGS)
    if settings.get("max_active_dims") is not None:
        evidence.add(f"{SETTINGS} max_active_dims", max_terms=settings["max_active_dims"])
    if settings.get("similarity_fn_name") == "cosine":
        evidence.refusals.append(
            f"{folder / SETTINGS}: similarity_fn_name: expected dot, found cosine"
        )


def _read_table(place: Path, inner: Path, evidence: Evidence) -> None:
    """Read what encodes queries, without special tokens, in the place of the transformer."""
    limit, _ = token_limit(place, {})
    evidence.add(ROUTES, query_table=place.name)
    evidence.add(f"{place.name}/tokenizer_config.json model_max_length", query_limit=limit)
    if limit is None:
        evidence.problems["query_limit"] = (
            f"{place.name}/tokenizer_config.json: no model_max_length"
        )
    if read_object(place / "config.json").get("path") is not None:
        evidence.refusals.append(
            f"{place / 'config.json'}: path: expected weights in {WEIGHTS}, found them in another "
            "file; save the model anew with sentence-transformers"
        )
    own, other = (tokenizer_file(each) for each in (place, inner))
    hashes = {tokenizer_sha256(read_tokenizer(f.parent)) for f in (own, other) if f.exists()}
    if len(hashes) > 1:
        evidence.refusals.append(
            f"{own}: expected the tokenizer of documents, found another, whose word pieces are not "
            "theirs; save the model anew with one tokenizer"
        )


def read_finishing(folder: Path, modules: Sequence[tuple[str, str]], evidence: Evidence) -> None:
    """Read dense layers, normalisation and `truncate_dim`, and refuse other similarities.

    Args:
        folder: the model's.
        modules: (Dense or Normalize, folder) of what follows Pooling, in order.
        evidence: is added to.
    """
    for name, place in modules:
        _check_reads_vectors(folder / place, name, evidence)
    names, settings = [name for name, _ in modules], read_object(folder / SETTINGS)
    cut = settings.get("truncate_dim")
    # `encode` cuts what the modules made, and does not normalise it again.
    normalise = names[-1:] == ["Normalize"] and cut is None
    where = "modules.json: Normalize" if normalise else "modules.json: no Normalize at the end"
    evidence.add(
        where if "Normalize" in names else "modules.json: no Normalize", normalise=normalise
    )
    steps = [place if name == "Dense" else NORMALISE for name, place in modules]
    steps = steps[:-1] if normalise else steps
    if steps:
        evidence.add("modules.json", dense=tuple(steps))
    if cut is not None:
        evidence.add(f"{SETTINGS} truncate_dim", truncate_dim=cut)
    stated = settings.get("similarity_fn_name")
    if stated == "cosine" and not normalise:
        evidence.notes.append(
            "scores are inner products of embeddings as encode gives them; "
            f"{SETTINGS} says similarity_fn_name cosine: to rank by it, put "
            '"normalise": true in raypipe.json'
        )
    if stated not in (None, "cosine", "dot"):
        evidence.refusals.append(
            f"{folder / SETTINGS}: similarity_fn_name: expected cosine or dot, found {stated}"
        )


def _check_reads_vectors(place: Path, name: str, evidence: Evidence) -> None:
    """Refuse a Normalize of tokens' states, which are pooled before all this."""
    stated = read_object(place / "config.json") if name == "Normalize" else {}
    for key in ("module_input_name", "module_output_name"):
        if stated.get(key) not in (None, EMBEDDING):
            evidence.refusals.append(
                f"{place / 'config.json'}: {key}: expected {EMBEDDING}, found {stated[key]!r}"
            )


def _check_lower_case(inner: Path, evidence: Evidence) -> None:
    """Refuse do_lower_case: with it, `encode` lower-cases the text itself, and raypipe does not."""
    if not read_object(inner / "sentence_bert_config.json").get("do_lower_case"):
        return
    tokenizer = inner / "tokenizer.json"
    normaliser = part_of(read_object(tokenizer), "normalizer", tokenizer)
    if normaliser.get("lowercase") is not True:
        evidence.refusals.append(
            f"{inner / 'sentence_bert_config.json'}: do_lower_case is true, and tokenizer.json "
            "does not lower-case; convert it with a tokenizer that does"
        )


def token_limit(folder: Path, config: Config) -> tuple[int | None, str]:
    """(tokens of an input with special tokens, source), as sentence-transformers reads it.

    It is max_seq_length, or the tokenizer's model_max_length up to the model's positions.
    """
    stated = read_object(folder / "sentence_bert_config.json").get("max_seq_length")
    if stated is not None:
        return stated, "sentence_bert_config.json max_seq_length, specials included"
    positions = _positions(config)
    longest = read_object(folder / "tokenizer_config.json").get("model_max_length")
    if (
        isinstance(longest, int | float)
        and abs(longest) < LARGEST_LENGTH
        and (positions is None or longest < positions)
    ):
        return int(longest), "tokenizer_config.json model_max_length, specials included"
    return positions, "config.json max_position_embeddings, specials included"


def _positions(config: Config) -> int | None:
    """Tokens of the longest input; of a family that is unknown, its positions."""
    stated = config.get("max_position_embeddings")
    try:
        return family_of(config).files.num_positions(config) if type(stated) is int else stated
    except InputError:
        return stated


def read_prompts(folder: Path, evidence: Evidence) -> None:
    """Read the prefixes that encode_query and encode_document use: those named so."""
    prompts = prompts_of(folder)
    for side, name in (("query", "query"), ("passage", "document")):
        where = f"{SETTINGS}{STATED}{name}" if name in prompts else f"{SETTINGS}: no prompt {name}"
        evidence.add(where, **{f"{side}_prefix": prompts.get(name) or ""})
    others = [name for name in OTHER_PROMPTS if prompts.get(name) and not prompts.get("document")]
    if others:
        evidence.notes.append(
            f"{SETTINGS} has the prompt {others[0]!r}, which sentence-transformers' "
            'encode_document does not use, and so neither does raypipe: to use it, put "'
            f'passage_prefix": {json.dumps(prompts[others[0]])} in raypipe.json'
        )
    default = default_prompt(folder)
    if default and prompts.get(default) and default not in ("query", "document", *OTHER_PROMPTS):
        for side in ("query", "passage"):
            evidence.problems[f"{side}_prefix"] = (
                f"{SETTINGS} default_prompt_name {default!r} does not say which side it is for"
            )


def default_prompt(folder: Path) -> str | None:
    """The name of the prompt that calls use which name none.

    Raises:
        InputError: it is no text.
    """
    name = read_object(folder / SETTINGS).get("default_prompt_name")
    if not isinstance(name, str | None):
        raise InputError(f"{folder / SETTINGS}: default_prompt_name: expected text, found {name!r}")
    return name


def prompts_of(folder: Path) -> dict[str, Any]:
    """The texts that a folder's settings name, by their names."""
    return part_of(read_object(folder / SETTINGS), "prompts", folder / SETTINGS)


def check_tokenizer(folder: Path, evidence: Evidence, *, pair: bool) -> Layout | None:
    """Refuse a tokenizer whose inputs, of one text or a pair, do not have the model's layout.

    Returns the layout, or None if it is BERT's or refused.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        return None  # a vocab.txt is BERT's, and so are its inputs
    try:
        tokenizer = read_tokenizer(folder)
    except InputError as error:
        evidence.refusals += error.problems
        return None
    if tokenizer.post_processor is None:
        return None  # the class that opens it adds them
    try:
        family = family_of(read_object(folder / "config.json"))
        layout = family.layout(tokenizer, (0, 1) if pair else (0,))
    except InputError as error:
        evidence.refusals += [f"{path}: {problem}" for problem in error.problems]
        return None
    own = encoded(tokenizer, [("a", "b") if pair else "a"], specials=True)[0]
    expected = sliced(tokenizer, [["a"], ["b"]] if pair else [["a"]], layout)
    ids, segments = expected.ids.tolist(), expected.segments.tolist()
    if own.ids != ids or (layout.has_segments and own.type_ids != segments):
        wanted, made = (" ".join(map(str, map(tokenizer.id_to_token, n))) for n in (ids, own.ids))
        evidence.refusals.append(
            f"{path}: expected inputs {wanted} in segments {segments}, found {made} in "
            f"{own.type_ids}"
        )
    return layout


@dataclass(frozen=True, slots=True)
class DenseFile:
    """A layer on disk; its tensors are linear.weight [outer, inner], and linear.bias if it has
    one."""

    folder: str
    """Its name in the model's folder."""
    activation: str
    """identity or tanh."""
    sha256: str
    """SHA-256 of the layer's weights."""
    inner: int
    outer: int

    def to_json(self) -> dict[str, Any]:
        """The layer in a fingerprint."""
        return {"activation": self.activation, "sha256": self.sha256}


class DenseConfig(BaseModel):
    """config.json of a layer; other keys of it are not read."""

    activation_function: Annotated[str, one_of(*ACTIVATIONS, expected="Identity or Tanh")] = TANH
    bias: Flag = True
    use_residual: Annotated[Literal[False] | None, Field(description="false")] = None
    module_input_name: Annotated[str | None, one_of(EMBEDDING, "null")] = None
    module_output_name: Annotated[str | None, one_of(EMBEDDING, "null")] = None
    in_features: Annotated[int, Field(strict=True, description="a number of dimensions")]
    out_features: Annotated[int, Field(strict=True, description="a number of dimensions")]


def layers_of(
    folder: Path, own: AnyConventions | None, config: Config | None
) -> tuple[DenseFile | None, ...]:
    """The layers named by an encoder's settings, in order, and None for each `normalise`; none if
    the settings or config.json could not be read.

    Raises:
        InputError: a layer is missing, a pickle, or not one that raypipe computes, or sizes do not
            fit each other; all problems together.
    """
    if config is None or not isinstance(own, Conventions):
        return ()
    width = int(family_of(config).files.as_bert(config)["hidden_size"])
    problems: list[str] = []
    layers: list[DenseFile | None] = []
    for step in own.dense:
        if step == NORMALISE:
            layers.append(None)
            continue
        try:
            layer = _read_layer(folder, step)
        except InputError as error:
            problems += error.problems
            continue
        if layer.inner != width:
            problems.append(
                f"{folder / step}: expected a layer of {width} dimensions, which it is given, "
                f"found one of {layer.inner}"
            )
        width = layer.outer
        layers.append(layer)
    if not problems and own.truncate_dim is not None and own.truncate_dim > width:
        problems.append(
            f"{folder}: truncate_dim: expected at most {width}, the embeddings' dimensions, found "
            f"{own.truncate_dim}"
        )
    if problems:
        raise InputError(problems)
    return tuple(layers)


def _read_layer(folder: Path, name: str) -> DenseFile:
    place = folder / name
    if Path(name).name != name or not place.is_dir():
        raise InputError(f"{folder}: dense: expected {NORMALISE} or a folder in it, found {name!r}")
    config = read_object(place / "config.json")
    wrong = schema_problems(DenseConfig, config, missing=f"save {folder} anew")
    problems = [f"{place / 'config.json'}: {each}" for each in wrong]
    file = place / WEIGHTS
    if not file.exists():
        raise InputError([*problems, _without_weights(folder, place)])
    shapes = tensor_shapes(file)
    inner, outer = config.get("in_features"), config.get("out_features")
    expected: dict[str, Any] = {"linear.weight": (outer, inner)}
    if config.get("bias", True):
        expected["linear.bias"] = (outer,)
    if not problems and shapes != expected:
        problems.append(
            f"{file}: config.json says {_shown(expected)}, the file has {_shown(shapes)}"
        )
    if problems:
        raise InputError(problems)
    outer, inner = shapes["linear.weight"]
    activation = ACTIVATIONS[config.get("activation_function", TANH)]
    return DenseFile(name, activation, hash_once(file), inner, outer)


def _without_weights(folder: Path, place: Path) -> str:
    pickles = sorted(path.name for path in place.iterdir() if path.suffix == ".bin")
    if not pickles:
        return f"{place}: expected {WEIGHTS}, found none"
    return (
        f"{place}: expected {WEIGHTS}, found {', '.join(pickles)}, a pickle, which can run code; "
        f"save the model anew where you trust it: SentenceTransformer({str(folder)!r})"
        ".save_pretrained(DIR) writes safetensors"
    )


def _shown(shapes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items())) or "none"
