"""Searches in the index or the embeddings of a generation that is held."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from raypipe.api.given.models import device_of, model_of
from raypipe.api.given.numbers import count_of, number_of
from raypipe.api.given.texts import Texts
from raypipe.api.opened.held import Held, listed
from raypipe.config.hub import address
from raypipe.config.pipeline.kinds import Bm25Search, DenseSearch, Encode
from raypipe.config.pipeline.kinds.search import Rm3, Tuned
from raypipe.errors import InputError
from raypipe.names import Role, of_stage
from raypipe.stages.run_tables import dense_table, run_table, with_ids
from raypipe.vocabulary import BM25_B, BM25_K1, DEPTH

if TYPE_CHECKING:
    from raypipe.engines.lucene.search import LuceneSearcher


class HeldSearch:
    """Searches one generation; a Lucene index is unpacked once, and removed with what is held."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._lucene: dict[str, LuceneSearcher] = {}

    def search(
        self,
        asked: Texts,
        stage: str | None,
        *,
        depth: int | None,
        k1: float | None,
        b: float | None,
        device: str,
    ) -> pa.Table:
        """The run, schema.RUN_FILE; see `Index.search`."""
        name, recipe = self._named(stage), self._held.recipe
        wanted, searched = recipe.stages[name], name
        if isinstance(wanted, Bm25Search | DenseSearch):
            searched, depth = wanted.index, wanted.depth if depth is None else depth
        depth = DEPTH if depth is None else count_of("depth", depth)
        depth = min(depth, self._held.passages.num_rows)
        index = recipe.stages[searched]
        if not isinstance(index, Encode):
            k1, b = self._parameters(name, k1, b)
            rm3 = wanted.rm3 if isinstance(wanted, Bm25Search) else None
            run = self._bm25(asked, searched, k1, b, rm3, depth)
        elif k1 is None and b is None:
            run = self._dense(asked, searched, index.model, depth, device)
        else:
            raise InputError(f"k1, b: for BM25, and {name} searches embeddings; remove them")
        return with_ids(run, pa.table({"query_id": asked.ids}), self._held.passages)

    def _named(self, stage: str | None) -> str:
        """The stage to search by; where none is named, the only index or embeddings."""
        indexes = self._held.indexes()
        if stage is None and len(indexes) == 1:
            return indexes[0]
        known = [*indexes, *self._held.searches()]
        if stage is None or stage not in known:
            found = "none" if stage is None else repr(stage)
            raise InputError(
                f"stage: expected a stage of {self._held.title} that can be searched, "
                f"{listed(known)}; found {found}"
            )
        return stage

    def _parameters(self, name: str, k1: float | None, b: float | None) -> tuple[float, float]:
        """BM25's, as given, or as the stage has them or tuned them, or the defaults."""
        own, wanted = (BM25_K1, BM25_B), self._held.recipe.stages[name]
        if isinstance(wanted, Bm25Search) and (k1 is None or b is None):
            own = self._own_parameters(name, wanted)
        given = (own[0] if k1 is None else k1, own[1] if b is None else b)
        return number_of("k1", given[0], low=0), number_of("b", given[1], low=0, high=1)

    def _own_parameters(self, name: str, search: Bm25Search) -> tuple[float, float]:
        if not isinstance(search.bm25, Tuned):
            return search.bm25.k1, search.bm25.b
        from raypipe.stages.tune import chosen

        return chosen(self._held.stored(of_stage(name, role=Role.TUNE)))

    def _dense(self, asked: Texts, stage: str, model: str, depth: int, device: str) -> pa.Table:
        from raypipe.engines.exact.search import topk_block_stream
        from raypipe.stages.embeddings import all_vectors
        from raypipe.stages.encode import precision_of, refuse_other_model
        from raypipe.stages.in_memory import encode_texts
        from raypipe.stages.products import TorchProducts

        embeddings = self._held.stored(of_stage(stage))
        wanted = self._held.recipe.models[model]
        path = address(wanted.path, wanted.revision)
        opened = model_of(path, wanted.preset, settings=wanted.settings)
        opened = opened.in_precision(precision_of(embeddings))
        refuse_other_model(embeddings, opened)
        vectors = encode_texts(opened, asked.texts, side="query", device=device_of(device))
        blocks = all_vectors(embeddings)
        found = topk_block_stream(vectors, blocks, depth=depth, products=TorchProducts())
        return dense_table(0, *found, scored_by=stage)

    def _bm25(
        self, asked: Texts, stage: str, k1: float, b: float, rm3: Rm3 | None, depth: int
    ) -> pa.Table:
        from raypipe.engines.lucene.feedback import Rm3 as Settings
        from raypipe.engines.lucene.search import search_all
        from raypipe.stages.bm25 import open_index

        if stage not in self._lucene:
            folder = Path(self._held.end.enter_context(TemporaryDirectory())) / "index"
            index = self._held.stored(of_stage(stage))
            self._lucene[stage] = open_index(index, self._held.passages, folder)
            self._held.end.callback(self._lucene[stage].close)
        expand = None if rm3 is None else Settings(**rm3.model_dump())
        lucene = self._lucene[stage]
        found = search_all(lucene, asked.texts, k1=k1, b=b, depth=depth, rm3=expand)
        return run_table(*found, scored_by=stage)
