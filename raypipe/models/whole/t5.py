"""`raypipe.models.family.Files` of T5, transformers' module of it, and its tokenizer.

The module has its shapes without memory, or a checkpoint's weights. The tokenizer is made of the
sentencepiece model where a folder has no tokenizer.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.tensors import Named, Shape, Source, shape_problems
from raypipe.models.whole.files import MOST_LAYERS, WholeFiles, built, config_of
from raypipe.storage.records import canonical

if TYPE_CHECKING:
    from torch import Tensor, nn


WORDS, HEAD = "shared.weight", "lm_head.weight"
"""The table of word pieces, and the layer that gives their logits."""
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""The table again, as a checkpoint may have it under the names of those who read it."""


def shapes_of(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Shapes of the tensors by transformers' names, the table of word pieces once."""
    return dict(_shapes(canonical(dict(config))))


def module_of(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """The module with these weights, fp32, which does not drop out.

    Args:
        config: config.json.
        weights: by transformers' names; without HEAD, the table of word pieces is in its place.

    Raises:
        InputError: tensors are missing; the message names all.
    """
    module = _built(config)
    given = {**weights, HEAD: weights.get(HEAD, weights.get(WORDS))}
    missing = [
        name for name in module.state_dict() if name not in COPIES and given.get(name) is None
    ]
    if missing:
        raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
    found = {name: tensor.float() for name, tensor in given.items() if tensor is not None}
    module.load_state_dict(found, strict=False, assign=True)
    module.set_input_embeddings(module.shared)
    return module.eval()  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _shapes(config: bytes) -> tuple[tuple[str, Shape], ...]:
    held = _built(json.loads(config)).state_dict()
    return tuple((name, tuple(held[name].shape)) for name in held if name not in COPIES)


def _built(config: Mapping[str, Any]) -> Any:
    """The module without memory for its weights."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    with torch.device("meta"):
        return built(config, AutoModelForSeq2SeqLM)


KINDS = ("t5", "mt5")
"""By model_type; Flan-T5 and T5 version 1.1 are t5."""
SIZES = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
"""What config.json must state: transformers' own values for them are those of T5-small."""
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


def reads_prompts(config: Mapping[str, Any]) -> bool:
    """Whether config.json names a model that reads a prompt, and nothing else."""
    return config.get("model_type") in KINDS


def no_prompt(config: Mapping[str, Any]) -> str:
    """What is wrong with settings that have a prompt, for a model that reads none."""
    kind = config.get("model_type", "not stated")
    return (
        f"prompt: the settings have one, and model_type {kind} reads none; name a preset or "
        "settings without it"
    )


def start_of(config: Mapping[str, Any]) -> int:
    """The token with which the decoder begins, if config.json has no problems."""
    stated = (config.get(name) for name in ("decoder_start_token_id", "pad_token_id"))
    return next((int(token) for token in stated if token is not None), PAD)


class T5Files(WholeFiles):
    """See Files; a tensor has one name, the checkpoint's."""

    SEGMENTS = ""

    def __init__(self, kind: str) -> None:
        """Of models with this model_type."""
        super().__init__(kind, has_segments=False)

    def canonical_names(self, names: Iterable[str]) -> Named:
        """See Files; the table of word pieces has one of its names."""
        held = set(names)
        found = {name: Source(name, False) for name in sorted(held) if self._reads(name)}
        copies = [name for name in COPIES if name in held]
        if WORDS not in found and copies:
            found[WORDS] = Source(copies[0], False)
        used = {source.name for source in found.values()}
        return Named(found, sorted(held - used), [])

    def expected_shapes(
        self, config: Mapping[str, Any], *, num_labels: int | None
    ) -> dict[str, Shape]:
        """See Files; with a head of its own if config.json says that it has one."""
        shapes = shapes_of(config)
        if getattr(config_of(config), "scale_decoder_outputs", True):  # of version 1.0 alone
            del shapes[HEAD]
        return shapes

    def may_have(self, name: str) -> bool:
        """See Files: the head may be there although it is the table of word pieces."""
        return name == HEAD

    def config_problems(self, config: Mapping[str, Any]) -> list[str]:
        """See Files."""
        problems = [
            f"{name}: expected a count, found nothing" for name in SIZES if name not in config
        ]
        try:
            found = config_of(config)
        except InputError as error:
            return problems + error.problems
        for name in ("num_layers", "num_decoder_layers"):
            if not 1 <= getattr(found, name) <= MOST_LAYERS:
                problems.append(
                    f"{name}: expected 1 to {MOST_LAYERS}, found {getattr(found, name)}"
                )
        if not found.is_encoder_decoder:
            problems.append("is_encoder_decoder: expected true, found false")
        for name in ("decoder_start_token_id", "pad_token_id"):
            start = config.get(name)
            known = type(start) is int and 0 <= start < found.vocab_size
            if start is not None and not known:
                problems.append(
                    f"{name}: expected a word piece, 0 to {found.vocab_size - 1}, found {start!r}"
                )
        return problems

    def num_positions(self, config: Mapping[str, Any]) -> int:
        """See Files; no more than it was trained with."""
        stated = config.get("n_positions")
        return min(stated, LONGEST) if isinstance(stated, int) else LONGEST

    def as_bert(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """See Files; the inner size is that of an encoder's layer with as many products.

        The decoder reads one token, which costs little beside the prompt.
        """
        found = config_of(config)
        gates = GATED if found.is_gated_act else 1.0
        wider = 2 * (found.num_heads * found.d_kv - found.d_model)
        return {
            **config,
            "hidden_size": found.d_model,
            "num_hidden_layers": found.num_layers,
            "num_attention_heads": found.num_heads,
            "intermediate_size": round(gates * found.d_ff) + wider,
            "max_position_embeddings": self.num_positions(config),
        }

    def contradictions(
        self, config: Mapping[str, Any], shapes: Mapping[str, Shape], *, any_segments: bool = False
    ) -> list[str]:
        """See Files."""
        named = self.canonical_names(shapes).found
        expected = self.expected_shapes(config, num_labels=None)
        if HEAD in named:
            expected[HEAD] = shapes_of(config)[HEAD]
        held = {place: (source.name, shapes[source.name]) for place, source in named.items()}
        unknown = [
            f"{source.name}: no such tensor in a model of the sizes in config.json"
            for place, source in named.items()
            if place not in expected
        ]
        return shape_problems(expected, held) + unknown

    def converted_config(
        self, config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """See Files."""
        return {**config, "architectures": [self.architecture(head=True)]}

    def architecture(self, *, head: bool) -> str:
        """See Files."""
        return f"{'T5' if self.kind == 't5' else 'MT5'}ForConditionalGeneration"

    @staticmethod
    def _reads(name: str) -> bool:
        return _OWN.fullmatch(name) is not None and name != _NOT_READ

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(
            f"model_type {self.kind}: expected a model whose forward pass is raypipe's own, found "
            f"one that transformers computes: it is scored with, and not {what}"
        )


PIECES = "spiece.model"


def read_pieces(folder: Path) -> Tokenizer:
    """The tokenizer that transformers makes of PIECES and the JSON files beside it.

    Raises:
        InputError: config.json names a model of another architecture, whose texts become other
            pieces. What transformers raises is raised as it is.
    """
    from transformers import T5TokenizerFast

    config: Any = json.loads((folder / "config.json").read_bytes())
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in KINDS:
        raise InputError(
            f"{folder / PIECES}: expected tokenizer.json; {PIECES} alone is read for model_type "
            f"{' and '.join(KINDS)}, found {kind!r}. Save the model's tokenizer with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    built: Any = T5TokenizerFast.from_pretrained(str(folder), local_files_only=True)
    made: Tokenizer = built.backend_tokenizer
    return made
