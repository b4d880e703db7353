"""An encoder: from word pieces to one vector per row, independent of other rows."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file

from raypipe.errors import InputError, RowsFailed
from raypipe.models.folder.files import check_unchanged
from raypipe.models.folder.model_folder import ModelFolder, here
from raypipe.models.folder.modules import TENSORS
from raypipe.models.gpu.passes import FixedEngine
from raypipe.models.machine.device import Place
from raypipe.models.packed import Body
from raypipe.models.packed_forward import PackedForward
from raypipe.models.pooling import AnyFinishing
from raypipe.storage.records import hash_file
from raypipe.text.inputs import Layouts, TextSlice


def all_finite(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same vectors.

    Raises:
        RowsFailed: some are not finite.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise RowsFailed(bad.tolist(), "the vector is not finite")
    return vectors


class Encoder:
    """Weights on a device; see `raypipe.models.load`."""

    def __init__(
        self,
        model: ModelFolder,
        body: Body,
        layouts: Layouts,
        place: Place,
        finishing: AnyFinishing,
        engine: FixedEngine | None = None,
    ) -> None:
        """Use `raypipe.models.load`."""
        self.conventions = model.encoder
        self.dim = finishing.dim(body.width)
        self.numerics = place.numerics
        """The numerics class, within which a row has equal bytes, whatever the rows beside it."""
        self.engine = engine
        """Computes in passes of fixed shape; None without them."""
        self._layouts = layouts
        self._forward = PackedForward(model.family, body, place, finishing.of_groups, engine)

    def encode(
        self,
        flat: NDArray[np.uint16 | np.uint32],
        offsets: NDArray[np.int64],
        *,
        side: str,
        budget_tokens: int | None = None,
        beat: Callable[[Sequence[int]], None] = lambda rows: None,
    ) -> NDArray[np.float32]:
        """Vectors of all rows in order, fp32 [N, dim].

        Args:
            flat: the word pieces of all rows.
            offsets: int64 [N + 1].
            side: query or passage, which decides limit and segment.
            budget_tokens: tokens in one forward pass, at most those that it was loaded
                with; changes no byte.
            beat: called with the rows of each batch before it is computed.

        Raises:
            RowsFailed: vectors that are not finite.
        """
        assert not self.conventions.by_table(side)
        layout = self._layouts[side]
        counts = self._counts(offsets, side)
        texts = TextSlice(flat, offsets[:-1], counts)
        out = np.empty((len(counts), self.dim), np.float32)
        for rows, vectors_of_rows in self._forward.results([texts], layout, budget_tokens, beat):
            out[rows] = vectors_of_rows
        return all_finite(out)

    def num_tokens(self, offsets: NDArray[np.int64], side: str) -> int:
        """The number of tokens that `encode` reads of such rows, special tokens included."""
        return int(self._layouts[side].lengths([self._counts(offsets, side)]).sum())

    def _counts(self, offsets: NDArray[np.int64], side: str) -> NDArray[np.int64]:
        return np.minimum(np.diff(offsets), self.conventions.limit(side))


class QueryTable(Encoder):
    """Encodes queries by a table, without the model: each word piece of a query has its weight.

    Source: Geng et al. 2024 (arXiv 2411.04403), as sentence-transformers' SparseStaticEmbedding
    computes it.
    """

    def __init__(self, model: ModelFolder) -> None:
        """Read the table.

        Raises:
            InputError: it changed since it was hashed, or has a weight that is not a number from 0.
        """
        self.conventions, self.dim, self.engine = model.encoder, model.dim, None
        self.numerics = "table"
        assert self.conventions.query_table is not None and model.query_table is not None
        file = here(model).folder / self.conventions.query_table / TENSORS
        check_unchanged(f"{file}: expected weights", model.query_table, hash_file(file))
        self._table = load_file(file)["weight"].float().numpy()
        wrong = np.flatnonzero(~(np.isfinite(self._table) & (self._table >= 0)))
        if len(wrong):
            found = f"{self._table[wrong[0]]:g} for word piece {wrong[0]}"
            raise InputError(f"{file}: expected weights from 0, found {found}; set it to 0")

    def encode(
        self,
        flat: NDArray[np.uint16 | np.uint32],
        offsets: NDArray[np.int64],
        *,
        side: str,
        budget_tokens: int | None = None,
        beat: Callable[[Sequence[int]], None] = lambda rows: None,
    ) -> NDArray[np.float32]:
        """Vectors of all queries in order, fp32 [N, dim], with the table's weight of each piece."""
        assert self.conventions.by_table(side)
        counts = self._counts(offsets, side)
        rows = np.repeat(np.arange(len(counts)), counts)
        kept = np.arange(len(flat)) - np.repeat(offsets[:-1], np.diff(offsets))
        pieces = flat[kept < np.repeat(counts, np.diff(offsets))]
        out = np.zeros((len(counts), self.dim), np.float32)
        out[rows, pieces] = self._table[pieces]
        return out

    def num_tokens(self, offsets: NDArray[np.int64], side: str) -> int:
        """Zero: no model reads a token."""
        return 0
