"""Files of a model that transformers computes, and transformers' modules, T5's among them.

The files are read as `raypipe.models.family.Files` says. The functions on modules give shapes,
configurations and arguments. A T5's tokenizer is made of the sentencepiece model where a folder has
no tokenizer.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from raypipe.errors import InputError, first_line
from raypipe.models.tensors import Config, Named, Shape, TensorSource, is_reranker, shape_problems
from raypipe.storage.records import canonical

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn

    from raypipe.models.tensors import Tensors


NOT_DECISIVE = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Keys of config.json that say where it comes from."""
OWN_CODE = (
    "auto_map: expected none, found code of the model's own, which raypipe does not run; name a "
    "model that transformers computes by itself"
)
LAST_BIASES = ("classifier.bias", "classifier.out_proj.bias")
"""Ends of the name of a head's last bias in transformers' classes."""
FIRST_POSITIONS = {"mpnet": 2}
"""Where positions begin, if not at 0."""
ANY_POSITIONS = 1 << 20
"""Number of positions of a model without a table of them."""
MOST_LAYERS = 1000
"""Far beyond those of any model; building more would not end."""
SIZES = {
    "hidden_size": None,
    "num_hidden_layers": MOST_LAYERS,
    "num_attention_heads": None,
    "intermediate_size": None,
}
"""BERT's names of counts that others state too, and the largest that is computed."""
T5_KINDS = ("t5", "mt5")
"""Every model_type of a T5; Flan-T5 and T5 version 1.1 are t5."""
T5_SIZES = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
"""Keys that config.json must state: transformers' own values for them are those of T5-small."""
WORDS, HEAD = "shared.weight", "lm_head.weight"
"""The table of word pieces, and the layer that gives their logits."""
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""The table again, as a checkpoint may have it under the names of those who read it."""
LONGEST = 512
"""Tokens of the inputs that T5 was trained with; its positions are relative and have no table."""
PAD = 0
"""T5's padding token, with which its decoder begins (Raffel et al. 2020)."""
_OWN = re.compile(
    r"(?:shared|lm_head)\.weight|(?:encoder|decoder)\.(?:block\.\d+\.layer\.|final_layer_norm\.).+"
)
_NOT_READ = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""In checkpoints of early versions; no version has read it."""
GATED = 1.5
"""A gated layer has three products in the place of two."""
PIECES = "spiece.model"


class WholeFiles:
    """Files of a model that transformers opens. A tensor has one name, the checkpoint's."""

    SEGMENTS = "embeddings.token_type_embeddings.weight"
    POOLER = ("", "")
    HEADS = ("", "")
    ADAPTED: tuple[str, ...] = ()
    SPECIAL_TOKENS: tuple[str, ...] = ()
    USED = "encoded with and scored with"
    """The uses of such a model, for messages."""

    def __init__(self, kind: str, *, has_segments: bool) -> None:
        """The files of models with this model_type, which read segments or not."""
        self.kind, self.HAS_SEGMENTS = kind, has_segments

    def canonical_names(self, names: Iterable[str]) -> Named:
        """The names without the prefix of the body in a model with a head. Every tensor is used."""
        prefix = prefix_of({"model_type": self.kind}) + "."
        found = {name.removeprefix(prefix): TensorSource(name, False) for name in sorted(names)}
        return Named(found, [], [])

    def saved_name(self, name: str, *, head: bool) -> str:
        """The name as it is."""
        return name

    def trained_names(self, names: Iterable[str], *, head: bool) -> dict[str, str]:
        """Raises InputError."""
        self._refuse("trained")

    def linear_names(self, tensors: Tensors, *, head: bool) -> list[str]:
        """Raises InputError."""
        self._refuse("trained")

    def expected_shapes(self, config: Config, *, num_labels: int | None) -> dict[str, Shape]:
        """Shapes of transformers' module by its names, without the body's prefix."""
        with_units = config if num_labels is None else {**config, "num_labels": num_labels}
        shapes = shapes_of(with_units, head=num_labels is not None)
        prefix = prefix_of(config) + "."
        return {name.removeprefix(prefix): shape for name, shape in shapes.items()}

    def may_have(self, name: str) -> bool:
        """Any: transformers leaves out what its module does not have."""
        return True

    def config_problems(self, config: Config) -> list[str]:
        """Errors of transformers' own configuration, decoders, and sizes out of range."""
        try:
            model_config = config_of(config)
        except InputError as error:
            return error.problems
        decodes = [
            key for key in ("is_decoder", "is_encoder_decoder") if getattr(model_config, key, None)
        ]
        problems = [f"{key}: expected false, found true" for key in decodes]
        for name, most in SIZES.items():
            size = getattr(model_config, name, 1)
            if size < 1 or (most is not None and size > most):
                expected = "1 or more" if most is None else f"1 to {most}"
                problems.append(f"{name}: expected {expected}, found {size!r}")
        segments = getattr(model_config, "type_vocab_size", 0)
        if not self.HAS_SEGMENTS and segments not in (None, 0):
            problems.append(f"type_vocab_size: expected 0, found {segments}")
        return problems

    def own_problems(self, config: Config) -> list[str]:
        """The problems of `config_problems`, as nothing more must be stated."""
        return self.config_problems(config)

    def decisive(self, config: Config) -> dict[str, Any]:
        """All but NOT_DECISIVE, and the version of transformers, whose code computes the rows."""
        kept = {key: value for key, value in config.items() if key not in NOT_DECISIVE}
        return {**kept, "transformers": version()}

    def num_positions(self, config: Config) -> int:
        """Rows of the table of positions from the first that a token has."""
        rows = int(getattr(config_of(config), "max_position_embeddings", ANY_POSITIONS))
        return rows - FIRST_POSITIONS.get(self.kind, 0)

    def as_bert(self, config: Config) -> dict[str, Any]:
        """The values of config.json, with BERT's sizes as transformers reads them."""
        model_config = config_of(config)
        stated = {
            name: getattr(model_config, name) for name in SIZES if hasattr(model_config, name)
        }
        return {**config, **stated, "max_position_embeddings": self.num_positions(config)}

    def contradictions(
        self, config: Config, shapes: Mapping[str, Shape], *, any_segments: bool = False
    ) -> list[str]:
        """Tensors that are missing or of another shape, and tensors of further layers.

        Other tensors that are not read are no contradiction.
        """
        expected = shapes_of(config, head=has_head(config, shapes))
        prefix = prefix_of(config)
        named = names_of(shapes, expected, prefix)
        saved = {name: (place, shapes[place]) for name, place in named.items()}
        known = {_of_any_layer(name, prefix) for name in expected}
        others = sorted({*shapes} - {*named.values()})
        further = [name for name in others if _of_any_layer(name, prefix) in known]
        problems = shape_problems(expected, saved)
        if further:
            problems.append(
                f"{further[0]}: no such tensor in a model of the sizes in config.json; with it, "
                f"the checkpoint has {len(further)} of further layers"
            )
        return problems

    def converted_config(
        self, config: Config, *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """Raises InputError."""
        self._refuse("converted")

    def architecture(self, *, head: bool) -> str:
        """The class of transformers that chooses the model's own by its config.json."""
        return "AutoModelForSequenceClassification" if head else "AutoModel"

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(
            f"model_type {self.kind}: expected a model whose forward pass is raypipe's own, found "
            f"one that transformers computes: it is {self.USED}, and not {what}"
        )


def _of_any_layer(name: str, prefix: str) -> str:
    """A tensor's name without the body's prefix and the numbers of layers."""
    return re.sub(r"\d+", "", name.removeprefix(f"{prefix}."))


class T5Files(WholeFiles):
    """Files of a T5, which is a reranker. A tensor has one name, the checkpoint's."""

    SEGMENTS = ""
    USED = "scored with"

    def __init__(self, kind: str) -> None:
        """The files of models with this model_type."""
        super().__init__(kind, has_segments=False)

    def canonical_names(self, names: Iterable[str]) -> Named:
        """The names as they are. The table of word pieces may have one of its other names."""
        listed = set(names)
        sources = {name: TensorSource(name, False) for name in sorted(listed) if self._reads(name)}
        copies = [name for name in COPIES if name in listed]
        if WORDS not in sources and copies:
            sources[WORDS] = TensorSource(copies[0], False)
        used = {source.name for source in sources.values()}
        return Named(sources, sorted(listed - used), [])

    def expected_shapes(self, config: Config, *, num_labels: int | None) -> dict[str, Shape]:
        """Shapes of transformers' module, with a head of its own if config.json says so."""
        shapes = shapes_of(config, head=True)
        if getattr(config_of(config), "scale_decoder_outputs", True):  # of version 1.0 alone
            del shapes[HEAD]
        return shapes

    def may_have(self, name: str) -> bool:
        """Whether the tensor is the head, which may repeat the table of word pieces."""
        return name == HEAD

    def config_problems(self, config: Config) -> list[str]:
        """Sizes that are missing or out of range, and tokens beyond the vocabulary."""
        problems = [
            f"{name}: expected a count, found nothing" for name in T5_SIZES if name not in config
        ]
        try:
            model_config = config_of(config)
        except InputError as error:
            return problems + error.problems
        for name in ("num_layers", "num_decoder_layers"):
            if not 1 <= getattr(model_config, name) <= MOST_LAYERS:
                problems.append(
                    f"{name}: expected 1 to {MOST_LAYERS}, found {getattr(model_config, name)}"
                )
        if not model_config.is_encoder_decoder:
            problems.append("is_encoder_decoder: expected true, found false")
        for name in ("decoder_start_token_id", "pad_token_id"):
            start = config.get(name)
            known = type(start) is int and 0 <= start < model_config.vocab_size
            if start is not None and not known:
                problems.append(
                    f"{name}: expected a word piece, 0 to {model_config.vocab_size - 1}, "
                    f"found {start!r}"
                )
        return problems

    def num_positions(self, config: Config) -> int:
        """Number of tokens of the longest input, at most the LONGEST of its training."""
        stated = config.get("n_positions")
        return min(stated, LONGEST) if isinstance(stated, int) else LONGEST

    def as_bert(self, config: Config) -> dict[str, Any]:
        """The sizes under BERT's keys, with the inner size of a BERT with as many products.

        The decoder reads one token, which costs little beside the prompt.
        """
        model_config = config_of(config)
        gates = GATED if model_config.is_gated_act else 1.0
        wider = 2 * (model_config.num_heads * model_config.d_kv - model_config.d_model)
        return {
            **config,
            "hidden_size": model_config.d_model,
            "num_hidden_layers": model_config.num_layers,
            "num_attention_heads": model_config.num_heads,
            "intermediate_size": round(gates * model_config.d_ff) + wider,
            "max_position_embeddings": self.num_positions(config),
        }

    def contradictions(
        self, config: Config, shapes: Mapping[str, Shape], *, any_segments: bool = False
    ) -> list[str]:
        """Tensors that are missing, of another shape, or not in a model of such sizes."""
        named = self.canonical_names(shapes).found
        expected = self.expected_shapes(config, num_labels=None)
        if HEAD in named:
            expected[HEAD] = shapes_of(config, head=True)[HEAD]
        saved = {place: (source.name, shapes[source.name]) for place, source in named.items()}
        unknown = [
            f"{source.name}: no such tensor in a model of the sizes in config.json"
            for place, source in named.items()
            if place not in expected
        ]
        return shape_problems(expected, saved) + unknown

    def converted_config(
        self, config: Config, *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """The same config.json, with the class of transformers that opens the model."""
        return {**config, "architectures": [self.architecture(head=True)]}

    def architecture(self, *, head: bool) -> str:
        """The class of transformers for T5 or mT5."""
        return f"{'T5' if self.kind == 't5' else 'MT5'}ForConditionalGeneration"

    @staticmethod
    def _reads(name: str) -> bool:
        return _OWN.fullmatch(name) is not None and name != _NOT_READ


def reads_prompts(config: Config) -> bool:
    """Whether config.json names a model that reads a prompt, and nothing else."""
    return config.get("model_type") in T5_KINDS


def no_prompt(config: Config) -> str:
    """The problem of settings that have a prompt, for a model that reads none."""
    kind = config.get("model_type", "not stated")
    return (
        f"prompt: the settings have one, and model_type {kind} reads none; name a preset or "
        "settings without it"
    )


def start_of(config: Config) -> int:
    """The token with which the decoder begins, if config.json has no problems."""
    stated = (config.get(name) for name in ("decoder_start_token_id", "pad_token_id"))
    return next((int(token) for token in stated if token is not None), PAD)


def has_head(config: Config, names: Iterable[str]) -> bool:
    """Whether a checkpoint is a reranker's: its architecture says so, or all of its tensors do.

    An architecture that is missing, or that of another head, does not lose a head that is there.
    """
    if is_reranker(config):
        return True
    names = set(names)
    if not any(name.endswith(LAST_BIASES) for name in names):
        return False
    wanted = shapes_of(config, head=True)
    return len(names_of(names, wanted, prefix_of(config))) == len(wanted)


def config_of(config: Config) -> Any:
    """transformers' configuration, which gives defaults for what config.json leaves out.

    Raises:
        InputError: it refuses the values, or asks for code from the model's folder.
    """
    from transformers import AutoConfig

    if "auto_map" in config:
        raise InputError(OWN_CODE)
    values = {key: value for key, value in config.items() if key not in NOT_DECISIVE}
    kind = values.pop("model_type")
    try:
        return AutoConfig.for_model(kind, **values)
    except Exception as error:  # of many kinds: whatever a configuration's own checks raise
        raise InputError(f"config.json: refused by transformers: {first_line(error)}") from error


def shapes_of(config: Config, *, head: bool) -> dict[str, Shape]:
    """Shapes of the tensors by transformers' names, without computing or drawing any.

    Tensors that are not read are left out.
    """
    shapes = _shapes(canonical(dict(config)), head)
    return {name: shape for name, shape in shapes if not _unread(name, head)}


def module_of(config: Config, weights: Tensors, *, head: bool) -> nn.Module:
    """The module with these weights, which does not drop out.

    Raises:
        InputError: tensors are missing; the message names all.
    """
    module: nn.Module = _built(config, head)
    wanted = module.state_dict()
    named = names_of(weights, wanted, prefix_of(config))
    missing = [name for name in wanted if name not in named and not _unread(name, head)]
    if missing:
        raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
    found = {name: weights[place].float() for name, place in named.items()}
    module.load_state_dict(found, strict=False)
    return module.eval()


def _built(config: Config, head: bool) -> Any:
    """The module that one of transformers' automatic classes makes, with weights that it draws.

    Raises:
        InputError: the configuration or the class refuses config.json.
    """
    from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

    opened = AutoModelForSequenceClassification if head else AutoModel
    opened = AutoModelForSeq2SeqLM if reads_prompts(config) else opened
    made = config_of(config)
    try:
        return opened.from_config(made)
    except Exception as error:  # of many kinds, as above
        raise InputError(f"config.json: refused by transformers: {first_line(error)}") from error


def _unread(name: str, head: bool) -> bool:
    """Whether no output depends on the tensor: an encoder's pooler, or a copy of a T5's table."""
    return name in COPIES or (not head and name.startswith("pooler."))


def names_of(saved: Iterable[str], expected: Iterable[str], prefix: str) -> dict[str, str]:
    """transformers' name -> the checkpoint's, which may have or lack the prefix of the body."""
    names = set(saved)
    places = {}
    for name in expected:
        others = (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}."))
        place = next((other for other in others if other in names), None)
        if place is not None:
            places[name] = place
    return places


def arguments_of(module: nn.Module) -> frozenset[str]:
    """Names of the arguments of the module's forward pass."""
    return frozenset(signature(module.forward).parameters)


@lru_cache(maxsize=8)
def _shapes(config: bytes, head: bool) -> tuple[tuple[str, Shape], ...]:
    import torch

    with torch.device("meta"):
        module = _built(json.loads(config), head)
    return tuple((name, tuple(tensor.shape)) for name, tensor in module.state_dict().items())


def prefix_of(config: Config) -> str:
    """Prefix of the names of the body's tensors in a model with a head."""
    from transformers import MODEL_MAPPING

    prefix: str = MODEL_MAPPING[type(config_of(config))].base_model_prefix
    return prefix


def version() -> str:
    """transformers' version, which decides the values of a row."""
    import transformers

    return str(transformers.__version__)


def t5_module(config: Config, weights: Tensors) -> nn.Module:
    """The module with these weights, fp32, which does not drop out.

    Args:
        config: config.json.
        weights: by transformers' names; without HEAD, the table of word pieces is in its place.

    Raises:
        InputError: tensors are missing; the message names all.
    """
    import torch

    with torch.device("meta"):  # without memory
        module = _built(config, head=True)
    given = {**weights, HEAD: weights.get(HEAD, weights.get(WORDS))}
    wanted = (name for name in module.state_dict() if not _unread(name, head=True))
    missing = [name for name in wanted if given.get(name) is None]
    if missing:
        raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
    found = {name: tensor.float() for name, tensor in given.items() if tensor is not None}
    module.load_state_dict(found, strict=False, assign=True)
    module.set_input_embeddings(module.shared)
    evaluated: nn.Module = module.eval()
    return evaluated


def read_pieces(folder: Path) -> Tokenizer:
    """The tokenizer that transformers makes of PIECES and the JSON files beside it.

    Raises:
        InputError: config.json names a model of another architecture, whose texts become other
            pieces. Errors of transformers are raised as they are.
    """
    from transformers import T5TokenizerFast

    config: Any = json.loads((folder / "config.json").read_bytes())
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in T5_KINDS:
        raise InputError(
            f"{folder / PIECES}: expected tokenizer.json; {PIECES} alone is read for model_type "
            f"{' and '.join(T5_KINDS)}, found {kind!r}. Save the model's tokenizer with "
            "transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    built: Any = T5TokenizerFast.from_pretrained(str(folder), local_files_only=True)
    made: Tokenizer = built.backend_tokenizer
    return made
