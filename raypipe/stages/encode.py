"""The stage that encodes word pieces as embeddings, fp16 [rows, dim] in each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError, RowsFailed
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.expected import Expected, ModelInputs
from raypipe.stages.reuse.hashes import Hashes, TextHashes
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Needs,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
)
from raypipe.stages.texts.query_tokens import QueryTokens, num_pieces
from raypipe.stages.texts.tokenize import piece_settings
from raypipe.storage.payloads import Flat, Offsets, read_vectors, taken, write_vectors
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec, settings_digest
from raypipe.storage.store import Stored, spec_over

if TYPE_CHECKING:
    from raypipe.models.encoder import Encoder
    from raypipe.stages.reuse.source import OlderStore, OpenedSource


FORM = "-"
"""Between the reuse key of an embedding and the form in which a store has something else."""


@dataclass(frozen=True)
class EncodeStage(Stage):
    """One embedding per row of tokens, in the model's precision, stored as the nearest fp16."""

    tokens: Stored | QueryTokens
    model: ModelFolder
    side: str
    """passage or query."""
    budget_tokens: int | None = None
    needs: Needs = Needs()
    hashes: Stored | None = None
    """Of the texts of a collection; None for queries, whose rows are never copied."""
    source: OlderStore | None = None
    skips_rows: ClassVar[bool] = True

    @property
    def spec(self) -> StageSpec:
        """The tokens, the weights, their configuration and every setting of the model.

        Of queries, the texts and how they are tokenised stand in the place of the tokens.
        """
        params, reuse_key = encode_settings(self.model, self.side)
        if isinstance(self.tokens, QueryTokens):
            params["pieces"] = self.tokens.settings
            return spec_over(
                "encode", 2, params, {"queries": self.tokens.queries}, produces="vectors"
            )
        stores = {"tokens": self.tokens}
        return spec_over("encode", 2, params, stores, produces="vectors", reuse_key=reuse_key)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows with about `shard_tokens` of work each at most; see shards_by_content."""
        from raypipe.stages.reuse.boundaries import shards_by_content

        return shards_by_content(self.tokens.num_rows, self.rows_of_shard(sizing), self.hashes)

    def rows_of_shard(self, sizing: Sizing) -> int:
        """Rows of a shard at most."""
        num_rows = self.tokens.num_rows
        tokens = num_pieces(self.tokens) + 2 * num_rows
        num_shards = max(1, -(-tokens // sizing.shard_tokens))
        return max(1, -(-num_rows // num_shards))

    def weights_of(self, shards: Sequence[Shard]) -> list[float]:
        """The work of each shard: its tokens."""
        from raypipe.stages.reuse.boundaries import spread

        if isinstance(self.tokens, QueryTokens):
            return [len(self.tokens.tokens(s.start, s.stop)[0]) + 2 * s.num_rows for s in shards]
        return spread(self.tokens, lambda r: r.facts["pieces"] + 2 * r.shard.num_rows, shards)

    def reusing(self, older: Sequence[Stored]) -> EncodeStage:
        """This stage, copying rows from older stores."""
        from raypipe.stages.reuse.source import source_over

        return replace(self, source=source_over(older, self.hashes, "tokens", "texts"))

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return 2 * self.model.dim * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the tokens of a sample of the texts."""
        from raypipe.stages.reuse.boundaries import expected_shards

        rows, tokens, inputs = self.tokens.num_rows, self.tokens, None
        if not self.model.encoder.by_table(self.side):
            if isinstance(tokens, QueryTokens):
                text = tokens.part(np.arange(rows))
            else:
                text = expectations.stored_pieces(tokens)
            inputs = ModelInputs(self.model, self.side, (text,), rows)
        work = self.rows_of_shard(expectations.sizing)
        return Expected(
            shards=expected_shards(rows, work, self.hashes, expectations),
            num_bytes=float(self.estimated_bytes(rows, rows)),
            inputs=inputs,
        )

    def open(self, site: Site) -> Opened:
        """Open it: embeddings of a shard's rows in order, with zeros for the rows of `skip`.

        Its `run` raises RowsFailed for vectors that are not finite, in fp32 or as fp16.
        """
        from raypipe.models.load import load_encoder
        from raypipe.stages.open_model import open_model
        from raypipe.stages.reuse.source import OpenedSource

        load = partial(load_encoder, side=self.side)
        encoder, facts = open_model(load, self.model, site, self.budget_tokens)
        source = None if self.source is None else OpenedSource(self.source, encoder.numerics)
        hashes = None if self.hashes is None else TextHashes(self.hashes).hashes
        return Opened(partial(self._run, encoder, source, hashes, site.scratch), facts)

    def _run(
        self,
        encoder: Encoder,
        source: OpenedSource | None,
        hashes: Hashes | None,
        scratch: Path,
        shard: Shard,
        skip: Rows,
        beat: Beat,
    ) -> Payload:
        from raypipe.stages.open_model import Stopwatch
        from raypipe.stages.reuse.division import divide, same_payload

        watch = Stopwatch(encoder)
        same = None if source is None or skip else source.whole(shard)
        if source is not None and same is not None:
            return same_payload(same, source.path(same), scratch, shard)
        kept = np.setdiff1d(np.arange(shard.start, shard.stop), np.asarray(list(skip), np.int64))
        older = None if source is None else source.rows(kept)
        division = divide(kept, None if hashes is None else hashes[kept], older)
        rows = division.rows[division.computed]  # each text once
        flat, offsets = taken(*self.tokens.tokens(shard.start, shard.stop), rows - shard.start)
        try:
            made = self.vectors_of(
                encoder, flat, offsets, lambda places: beat(rows[list(places)].tolist())
            )
        except RowsFailed as failed:
            raise RowsFailed(division.all_rows_of(list(failed.rows)), failed.reason) from None
        groups = [] if source is None else source.by_record(division.copied)
        copied = [(source.path(record), rows) for record, rows in groups] if source else []
        path = scratch / f"{shard.index}.npy"
        self.write(path, shard.num_rows, kept - shard.start, division.places, copied, made)
        facts = {"rows": shard.num_rows, "numerics": encoder.numerics}
        num_tokens = encoder.num_tokens(offsets, self.side)
        took = (division.num_copied, num_tokens, watch.seconds())
        return Payload(path, facts, *took)

    def vectors_of(self, encoder: Encoder, flat: Flat, offsets: Offsets, beat: Beat) -> Any:
        """The stored form of these texts: embeddings, fp16 [N, dim]."""
        budget, side = self.budget_tokens, self.side
        return as_stored(encoder.encode(flat, offsets, side=side, budget_tokens=budget, beat=beat))

    def write(
        self,
        path: Path,
        num_rows: int,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        copied: Sequence[tuple[Path, NDArray[np.int64]]],
        made: Any,
    ) -> None:
        """Write a shard of `num_rows` rows; those that are not in `rows` have zeros.

        Args:
            path: the file.
            num_rows: of the shard.
            rows: those with a value, from the shard's start.
            places: the place of each one's value among those copied and then those made.
            copied: older payloads, and the rows of each that are copied.
            made: see `vectors_of`.
        """
        values = np.concatenate([*(read_vectors(older)[of] for older, of in copied), made])
        halves = np.zeros((num_rows, values.shape[1]), np.float16)
        halves[rows] = values[places]
        write_vectors(path, halves)


def refuse_other_model(embeddings: Stored, model: ModelFolder) -> None:
    """Returns nothing if the model, as it is now, would encode these passages in the same way.

    Raises:
        InputError: its weights, settings or tokenizer differ from those that encoded the passages,
            so its query vectors would not fit; names what differs.
        IncompleteError: the store's spec.json is missing.
    """
    made, (params, reuse_key) = embeddings.spec, encode_settings(model, "passage")
    if made.reuse_key.partition(FORM)[0] != reuse_key:
        params |= {"dtype": made.params["dtype"]}
        now = StageSpec(made.stage, made.semantics, params)
        changes = StageSpec(made.stage, made.semantics, made.params).diff(now)
        found = "; ".join(map(str, changes)) or "the tokenizer, or the version of tokenizers"
        raise InputError(
            f"{embeddings.origin}: the model differs from the one that encoded these passages: "
            f"{found}. Its queries would not fit: re-index, or name the model that encoded them"
        )


def precision_of(embeddings: Stored) -> str:
    """The precision in which a store's vectors were computed."""
    conventions = embeddings.spec.params["conventions"]
    assert isinstance(conventions, Mapping)
    return str(conventions["precision"])


def encode_settings(model: ModelFolder, side: str) -> tuple[dict[str, Json], str]:
    """The weights, their configuration and every setting of the model; and the reuse key."""
    params: dict[str, Json] = {
        "weights_sha256": model.weights_sha256,
        "config": model.forward_config(),
        "conventions": model.encoder.to_json(),
        "side": side,
        "dtype": "fp16",
    }
    if model.encoder.by_table(side):
        params["query_table"] = model.query_table
    pieces = piece_settings(model, model.prefix(side))
    return params, settings_digest("encode", 2, {"tokens": pieces, **params})


SMALLEST = float(np.finfo(np.float16).smallest_normal)
"""Below it, fp16 has fewer digits the smaller a value is."""


def as_stored(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Embeddings as they are stored: the nearest fp16 of each value.

    Raises:
        RowsFailed: vectors exceed the range of fp16, or lie where it has few digits; rows are
            positions in `vectors`.
    """
    with np.errstate(over="ignore"):
        narrow = vectors.astype(np.float16)
    largest = np.abs(vectors).max(axis=1, initial=0)
    outside = {
        "beyond 65,504, the range": ~np.isfinite(narrow).all(axis=1),
        "below 6.1e-05, the range": (0 < largest) & (largest < SMALLEST),
    }
    for where, rows in outside.items():
        if rows.any():
            raise RowsFailed(
                np.flatnonzero(rows).tolist(),
                f"the vector is {where} of fp16, in which embeddings are stored; set normalise: "
                "true, or scale the model's last layer",
            )
    return narrow
