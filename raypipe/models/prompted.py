"""monoT5 and duoT5 as a module: a prompt, one step of the decoder, the logits of two words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.folder.files import tensor_shapes
from raypipe.models.folder.settings import PairConventions
from raypipe.text.prompts import DUO_PLACES, MONO_PLACES

LONGEST = 512
"""Tokens of the inputs that T5 was trained with; its positions are relative and have no table."""
PAD = 0
"""T5's padding token, with which its decoder begins (Raffel et al. 2020)."""
WORDS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""The names of the table of word pieces."""


class Prompted(torch.nn.Module):
    """Computes the units of inputs from the prompt of the settings.

    Source: Nogueira et al. 2020, section 3; Pradeep et al. 2021, section 3.3.
    """

    max_seq_length = LONGEST

    def __init__(self, folder: Path, own: PairConventions, weights: dict[str, Any]) -> None:
        """Open the model's files.

        Raises:
            InputError: an answer is not one word piece, the limits leave no room, or the table of
                word pieces or the head is not there, which transformers does not report.
        """
        super().__init__()
        self.own, files = own, {"local_files_only": True, "trust_remote_code": False}
        # AutoTokenizer would rebuild a tokenizer.json by its own rules, without its normaliser.
        fast = (folder / "tokenizer.json").exists()
        opens = transformers.PreTrainedTokenizerFast if fast else transformers.AutoTokenizer
        self.tokenizer: Any = opens.from_pretrained(str(folder), **files)
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            str(folder), **weights, **files
        )
        config = self.model.config
        starts = (config.decoder_start_token_id, config.pad_token_id, PAD)
        self.start = next(token for token in starts if token is not None)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.convert_ids_to_tokens(PAD)
        problems = _tied_problems(folder, scaled=getattr(config, "scale_decoder_outputs", True))
        places = DUO_PLACES if own.kind == "duo" else MONO_PLACES
        assert own.prompt is not None and own.answers is not None  # see the settings
        self._prompt, self._places = own.prompt, places
        empty = own.prompt.format(**dict.fromkeys(places, ""))
        self._around = len(self.tokenizer(empty).input_ids)
        self.answers = [self._ids(word) for word in own.answers]
        problems += [
            f"answers: expected words that are one piece of the tokenizer each, found {word!r} as "
            f"{' '.join(self.tokenizer.convert_ids_to_tokens(ids))}; name the words that this "
            "model was trained to answer with"
            for word, ids in zip(own.answers, self.answers, strict=True)
            if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id
        ]
        room = own.total_limit - self._around - (own.query_limit or 1)
        if room < (own.passage_limit or 1) * own.num_passages:
            problems.append(
                f"total_limit: {own.total_limit} tokens do not hold the prompt's own "
                f"{self._around} and the other limits"
            )
        if own.total_limit > LONGEST:
            problems.append(
                f"the settings allow {own.total_limit} tokens, the model has {LONGEST} positions"
            )
        if problems:
            raise InputError([f"{folder}: {problem}" for problem in problems])

    def preprocess(self, inputs: Sequence[tuple[str, ...]], **_: Any) -> dict[str, Tensor]:
        """Prompts in which the query and then the passages are cut to the settings' limits."""
        own, (queries, *passages) = self.own, [*zip(*inputs, strict=True)]
        kept = first_pieces(self.tokenizer, queries, [own.query_limit or LONGEST] * len(queries))
        room = [own.total_limit - self._around - len(self._ids(query)) for query in kept]
        most = [min(each // len(passages), own.passage_limit or LONGEST) for each in room]
        texts = [kept, *(first_pieces(self.tokenizer, each, most) for each in passages)]
        made = [
            self._prompt.format(**dict(zip(self._places, each, strict=True)))
            for each in zip(*texts, strict=True)
        ]
        return dict(self.tokenizer(made, padding=True, return_tensors="pt"))

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """`scores`, [B, 2]: the logits of the answers after one step of the decoder."""
        start = features["input_ids"].new_full((len(features["input_ids"]), 1), self.start)
        made = self.model(**features, decoder_input_ids=start, use_cache=False)
        return {**features, "scores": made.logits[:, 0, [ids[0] for ids in self.answers]]}

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False).input_ids
        return ids


def _tied_problems(folder: Path, *, scaled: bool) -> list[str]:
    """The problem of a checkpoint without the table of word pieces, or without its head.

    The head of version 1.0, whose outputs are scaled, may be the table itself.
    """
    names = {name for file in folder.glob("*.safetensors") for name in tensor_shapes(file)}
    groups = [WORDS, ("lm_head.weight", *WORDS) if scaled else ("lm_head.weight",)]
    return [
        f"the checkpoint lacks the tensor {group[0]}" for group in groups if not names & {*group}
    ]


def first_pieces(tokenizer: Any, texts: Sequence[str], limits: Sequence[int]) -> list[str]:
    """The texts up to the ends of so many of their word pieces."""
    made = tokenizer([*texts], add_special_tokens=False, return_offsets_mapping=True)
    return [
        text if len(ends) <= limit else text[: ends[limit - 1][1]] if limit > 0 else ""
        for text, ends, limit in zip(texts, made.offset_mapping, limits, strict=True)
    ]
