"""The stage that splits texts into word pieces, once for each tokenizer."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import tokenizers
from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.opening import layout_of, open_tokenizer
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tokens import concatenate, write_tokens
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored, spec_over
from raypipe.text.slicing import first_difference
from raypipe.text.tokenize import tokenize_batch

MAX_PIECES = 512
"""No supported model reads more; a longer text is cut early, to save time."""
BATCH_ROWS = 2048
SAMPLED_TEXTS = 1000


@dataclass(frozen=True)
class TokenizeStage:
    """Word pieces of every row's text, without special tokens."""

    texts: Stored
    schema: pa.Schema
    model: ModelFolder
    prefix: str = ""
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The texts, the tokenizer and its library, the limit."""
        params = {
            "tokenizer_sha256": self.model.tokenizer_sha256,
            "tokenizers": tokenizers.__version__,
            "max_pieces": MAX_PIECES,
            "prefix": self.prefix,
        }
        return spec_over("tokenize", 2, params, {"texts": self.texts}, produces="tokens")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows; at least one per actor."""
        size = min(sizing.shard_rows, -(-self.texts.num_rows // sizing.num_actors) or 1)
        return ranges(self.texts.num_rows, size)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        whole = self.texts.num_bytes + 8 * self.texts.num_rows
        return whole * num_rows // max(1, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; pieces of a shard's rows, uint16 or uint32 flat with offsets."""
        tokenizer = open_tokenizer(self.model)
        self._check_slicing(tokenizer)
        run = partial(self._run, tokenizer, site.scratch)
        return Opened(run, {"tokenizers": tokenizers.__version__})

    def _check_slicing(self, tokenizer: Tokenizer) -> None:
        """Compare inputs made from pieces with the tokenizer's own, on 1,000 texts.

        Raises:
            InputError: they differ: this tokenizer's inputs cannot be sliced from pieces.
        """
        step = -(-self.texts.num_rows // SAMPLED_TEXTS)
        for start in range(0, self.texts.num_rows, max(1, step * 100)):
            stop = min(start + step * 100, self.texts.num_rows)
            texts = self.texts.table(self.schema, start, stop)["text"].to_pylist()[::step]
            refuse_other_inputs(tokenizer, texts, self.model)

    def _run(
        self, tokenizer: Tokenizer, scratch: Path, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        parts = []
        for start in range(shard.start, shard.stop, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, shard.stop)
            beat(range(start, stop))
            texts = self.texts.table(self.schema, start, stop)["text"].to_pylist()
            prefixed = [self.prefix + text for text in texts] if self.prefix else texts
            parts.append(tokenize_batch(tokenizer, prefixed, max_pieces=MAX_PIECES))
        if not parts:
            parts.append(tokenize_batch(tokenizer, [], max_pieces=MAX_PIECES))
        flat, offsets = concatenate(parts)
        path = scratch / f"{shard.index}.safetensors"
        write_tokens(path, flat, offsets)
        return Payload(path, {"rows": shard.num_rows, "pieces": len(flat)})


def refuse_other_inputs(tokenizer: Tokenizer, texts: list[str], model: ModelFolder) -> None:
    """Returns nothing if inputs sliced from pieces equal the tokenizer's own.

    Raises:
        InputError: they differ; the message names the text.
    """
    single = layout_of(model, tokenizer, (0,))
    pair = layout_of(model, tokenizer, (0, 1)) if model.conventions.kind == "mono" else None
    found = first_difference(tokenizer, texts, single, pair)
    if found is not None:
        first, last = (tokenizer.id_to_token(token) for token in (single.first, single.last))
        of_pair = "" if pair is None else f" (of a pair, with segments {pair.segments})"
        raise InputError(
            f"{model.folder}: the tokenizer's own input for {found[:60]!r} is not {first} pieces "
            f"{last}{of_pair}, which is what this model would be given"
        )
