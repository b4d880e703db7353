"""The amounts of stores that are not there yet: counts by the recipe, tokens by a sample of texts.

A run is the number of lines of each query; which passages are in it is not known. Candidates that
two requests over different runs have in common are counted by `SHARED` and told as a range.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.driver.forecast.amounts import (
    TEXTS,
    Amounts,
    Int64,
    Lines,
    ModelInputs,
    Sample,
    held,
    sample_of_files,
)
from raypipe.evaluation.run_files.runs import is_unordered, read_run
from raypipe.models.folder.model_folder import ModelFolder, layouts_of, open_tokenizer
from raypipe.models.folder.settings import PairConventions
from raypipe.ranking.candidates import Keys, missing
from raypipe.stages.ann.search import AnnSearchStage
from raypipe.stages.bm25 import IndexStage, LuceneSearchStage
from raypipe.stages.documents.convert import RecordsStage
from raypipe.stages.documents.passage_map import MapStage
from raypipe.stages.documents.split import SplitStage
from raypipe.stages.documents.windows import WindowsStage
from raypipe.stages.encode import EncodeStage
from raypipe.stages.impacts import ImpactIndexStage
from raypipe.stages.reuse.boundaries import expected_shards
from raypipe.stages.scoring.candidates import Candidates, Request, RunCandidates
from raypipe.stages.scoring.score import ScoreStage
from raypipe.stages.scoring.score_table import keys_of
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.search import PartsStage
from raypipe.stages.stage import Sizing, Stage, ranges
from raypipe.stages.tables import TableStage, WholeStage
from raypipe.stages.texts.ids import column_of_rows
from raypipe.stages.texts.prepare import ConvertStage
from raypipe.stages.texts.query_tokens import QueryTokens
from raypipe.stages.texts.tokenize import SHARD_ROWS, TokenizeStage, pieces_of
from raypipe.stages.tune import TuneStage
from raypipe.storage.payloads import concatenate
from raypipe.storage.records import Json, Shard, canonical
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored
from raypipe.text.inputs import TextSlice, cut_to, taken
from raypipe.text.split import num_passages
from raypipe.text.split import passages_of as split_passages
from raypipe.text.word_pieces import WordPieces
from raypipe.vocabulary import DEPTH

INPUTS = 4_000
"""Inputs of which a forecast knows the lengths."""
SHARED = 0.5
"""The share of the shorter request's candidates that are taken to be in another run's request too,
where one run is fused from the other. In the first 10 to 100 of BM25 fused with SPLADE by ranks it
was 0.43 to 0.65 (DL 2021 and 2022)."""
SHARED_UNRELATED = 0.25
"""The same where neither run is made of the other."""
INDEX_BYTES, TEXT_BYTES, PASSAGE_BYTES = 45_000, 1.282, 87.4
"""Of a Lucene index: whatever is in it, for a byte of text and for a passage."""
IMPACT_BYTES, IMPACT_SECONDS = 0.6, 1.7e-7
"""Of an index of impacts: for a stored byte of them, the index's bytes and CPU time."""
LINE_BYTES, FILE_BYTES = 11.0, 1_700
"""Of a stored run: a line (8.5, 10.4 and 11.0 for random passages of 6,000, 100,000 and 8,841,823),
and a shard's file beside its lines."""
INDEX_SECONDS, TEXT_SECONDS = 3.3, 1.5e-6
SEARCH_SECONDS, BM25_LINE_SECONDS = 0.1, 1.7e-5
LINE_SECONDS = 1.5e-6
VALUE_SECONDS = 4e-11
"""CPU time on the machine of tests/benchmarks: to index (at all, and a byte of text), to search
Lucene (at all, and a line), to write a line of any other run, to multiply two values."""


@dataclass(frozen=True)
class ForecastRequest:
    """The candidates of a run that a stage asks a model to score."""

    run: str
    """The run's identity."""
    number: float
    keys: Keys | None
    """The candidates themselves, where the run is there."""
    made_of: frozenset[str]


@dataclass
class Arithmetic:
    """Amounts of stores by those of the stores that they read; each text is tokenised once."""

    sizing: Sizing
    expected: dict[str, Amounts] = field(default_factory=dict)
    """Of stores that are not there, by their origin."""
    _there: dict[str, Amounts] = field(default_factory=dict)
    _before: dict[bytes, list[ScoreStage | Stored]] = field(default_factory=dict)
    """By what a score depends on: what has the scores."""
    _pieces: dict[tuple[str, str, bool, int, str], tuple[TextSlice, float]] = field(
        default_factory=dict
    )

    def of(self, stored: Stored) -> Amounts:
        """Of a store that is expected, or what one that is there really holds."""
        if stored.origin in self.expected:
            return self.expected[stored.origin]
        if stored.origin not in self._there:
            self._there[stored.origin] = held(stored)
        return self._there[stored.origin]

    def has(self, stored: Stored) -> bool:
        """Whether it is there."""
        return stored.origin not in self.expected

    def amounts(self, stage: Stage) -> Amounts:
        """What the stage's store will hold and take; of a stage without a rule, its plan."""
        match stage:
            case ConvertStage() | RecordsStage():
                sample = sample_of_files(stage)
                return Amounts(rows=sample.num_rows, seconds=sample.cpu_seconds, sample=sample)
            case WindowsStage() | SplitStage() | MapStage():
                return self._documents(stage)
            case TokenizeStage():
                return self._tokenized(stage)
            case PassageTokensStage():
                return self._tokenized_candidates(stage)
            case EncodeStage():
                return self._encoded(stage)
            case ImpactIndexStage():
                rows, num_bytes = stage.impacts.num_rows, IMPACT_BYTES * stage.impacts.num_bytes
                seconds = INDEX_SECONDS + IMPACT_SECONDS * stage.impacts.num_bytes
                return Amounts(rows=rows, num_bytes=INDEX_BYTES + num_bytes, seconds=seconds)
            case IndexStage():
                texts = self._sample(stage.collection)
                size, rows = texts.num_bytes - texts.id_bytes * texts.num_rows, texts.num_rows
                num_bytes = INDEX_BYTES + TEXT_BYTES * size + PASSAGE_BYTES * rows
                seconds = INDEX_SECONDS + TEXT_SECONDS * size
                return Amounts(rows=rows, num_bytes=num_bytes, seconds=seconds)
            case TuneStage():
                grid = [{"k1": stage.k1[0], "b": stage.b[0], "value": 0.0}]  # any may be chosen
                payload = json.dumps({"measure": stage.measure, "grid": grid}).encode()
                lines = stage.queries.num_rows * min(stage.depth, stage.collection.num_rows)
                points = len(stage.k1) * len(stage.b)
                seconds = SEARCH_SECONDS + points * lines * BM25_LINE_SECONDS
                return Amounts(rows=stage.queries.num_rows, seconds=seconds, payload=payload)
            case WholeStage(spec=StageSpec(stage="ann-recall", params=params)):
                payload = json.dumps({"queries": params["queries"], "recall": {}}).encode()
                return Amounts(rows=stage.rows.num_rows, payload=payload, note=_UNTIMED)
            case ScoreStage():
                return self._scored(stage)
            case TableStage(spec=StageSpec(produces="pairs")):
                run = stage.stores["run"]
                request = Request.from_json(stage.spec.params)
                number = float(request.expected(self._lines(run)).sum())
                facts = {"rows": round(number), "failed": 0}
                return Amounts(rows=run.num_rows, seconds=number * LINE_SECONDS, facts=facts)
        if stage.spec.produces in ("run", "parts"):
            return self._run(stage)
        rows = sum(shard.num_rows for shard in stage.shards(self.sizing))
        return Amounts(rows=rows, note=_UNTIMED if stage.spec.stage.startswith("ann") else "")

    def _run(self, stage: Stage) -> Amounts:
        """Of a run: the lines of each query."""
        seconds, facts, made_of, note = 0.0, dict[str, Json](), frozenset[str](), ""
        stores = stage.stores if isinstance(stage, TableStage) else {}
        params = stage.spec.params
        match stage:
            case LuceneSearchStage() | AnnSearchStage():
                passages = self.of(stage.sides.collection).rows
                lines = np.full(stage.sides.queries.num_rows, float(min(stage.depth, passages)))
                if isinstance(stage, LuceneSearchStage):
                    seconds = SEARCH_SECONDS + lines.sum() * (BM25_LINE_SECONDS - LINE_SECONDS)
                note = _UNTIMED if isinstance(stage, AnnSearchStage) else ""
            case PartsStage():
                spans = {(s.span_start, s.span_stop) for s in stage.shards(self.sizing)}
                found = sum(min(stage.depth, stop - start) for start, stop in spans)
                lines = np.full(stage.queries.num_rows, float(found))
                values = stage.embeddings.num_bytes / 2  # fp16
                seconds = stage.queries.num_rows * values * VALUE_SECONDS
            case TableStage(spec=StageSpec(stage="search")):
                depth = min(params["depth"], self.of(stores["collection"]).rows)
                lines = np.full(stores["queries"].num_rows, float(depth))
            case TableStage(spec=StageSpec(stage="fuse")):
                runs = [run for name, run in stores.items() if name.startswith("run.")]
                every = [self._lines(run) for run in runs]
                made_of = frozenset().union(*(self.of(run).made_of for run in runs))
                if len({len(each) for each in every}) == 1:
                    lines = np.minimum(
                        params["depth"], (np.max(every, axis=0) + np.sum(every, axis=0)) / 2
                    )
                else:  # a run file that leaves queries out
                    lines = np.full(stores["queries"].num_rows, float(params["depth"]))
            case TableStage(file=Path() as file):
                run = read_run(file, unordered=True)
                counts = np.unique(run["query_id"].to_numpy(False), return_counts=True)
                lines = counts[1].astype(np.float64)
                facts = {"unordered": int(lines.max())} if is_unordered(file) else {}
                if params["of_larger"]:
                    facts, note = {"left_out": 0, "lines": int(lines.sum()), **facts}, _LEFT_OUT
            case TableStage(spec=StageSpec(stage="documents-run" | "passages-run" as kind)):
                lines, facts_of_map = self._lines(stores["run"]), self.of(stores["map"]).facts
                mean = int(facts_of_map["rows"]) / int(facts_of_map["documents"])
                if kind == "documents-run":
                    lines = np.minimum(params["depth"], lines / max(1.0, mean))
                else:
                    mean = mean if params["at_most"] is None else min(mean, params["at_most"])
                    lines = np.minimum(params["documents"], lines) * mean
            case TableStage(spec=StageSpec(stage="rerank" | "aggregate")):
                run = stores["run"]
                lines, made_of = self._lines(run), self.of(run).made_of
                if params["tail"] == "drop":
                    lines = np.minimum(Request.from_json(params).k, lines)
            case _:  # a full list for each query
                rows = sum(shard.num_rows for shard in stage.shards(self.sizing))
                lines = np.full(rows, float(DEPTH))
                note = f"{stage.spec.stage}: its time is not forecast, and its lines are the most"
        total, shards = float(lines.sum()), stage.shards(self.sizing)
        return Amounts(
            rows=sum(shard.num_rows for shard in shards),
            num_bytes=LINE_BYTES * total + FILE_BYTES * len(shards),
            seconds=seconds + total * LINE_SECONDS,
            facts={"rows": round(total), **facts},
            lines=lines,
            made_of=made_of,
            note=note,
        )

    def _documents(self, stage: WindowsStage | SplitStage | MapStage) -> Amounts:
        """The windows, passages and map of documents, by those of a sample of them."""
        if isinstance(stage, MapStage):
            below = self.of(stage.stored)
            facts = {"rows": below.facts.get("passages", below.rows), "documents": below.rows}
            return Amounts(rows=int(facts["rows"]), facts=facts)
        documents = self._sample(stage.documents)
        if isinstance(stage, WindowsStage):
            found = sum(num_passages(body, stage.splitting) for body in documents.texts)
            facts = {"rows": documents.num_rows, "passages": round(found * documents.scale)}
            return Amounts(rows=documents.num_rows, facts=facts)
        number, began = int(self.of(stage.windows).facts["passages"]), process_time()
        texts = [
            text
            for body in documents.texts
            for text in split_passages("", "", body, stage.splitting)
        ]
        sample = Sample(texts, number, documents.id_bytes + len("#00"))
        return Amounts(
            rows=number,
            num_bytes=sample.num_bytes,
            seconds=(process_time() - began) * documents.scale,
            sample=sample,
            shards=ranges(number, self.sizing.shard_rows),
            note="passages are counted without the words of titles and headings in front",
        )

    def _tokenized(self, stage: TokenizeStage) -> Amounts:
        rows, shards = self.of(stage.texts).rows, None
        if stage.hashes is not None and not self.has(stage.hashes):
            shards = expected_shards(rows, min(self.sizing.shard_rows, SHARD_ROWS))
        pieces = self._pieces_of(stage.texts, stage.model, stage.prefix)
        return _of_pieces(*pieces, rows, shards)

    def _tokenized_candidates(self, stage: PassageTokensStage) -> Amounts:
        asked = _of_run(stage.candidates)
        if self.has(asked.run):
            shards = stage.shards(self.sizing)
        else:
            first = float(np.minimum(asked.request.k, self._lines(asked.run)).sum())
            rows = min(round(first), self.of(stage.collection).rows)
            shards = ranges(rows, min(self.sizing.shard_rows, SHARD_ROWS))
        prefix = stage.model.conventions.prefix("passage")
        pieces = self._pieces_of(stage.collection, stage.model, prefix)
        return _of_pieces(*pieces, shards[-1].stop, shards)

    def _encoded(self, stage: EncodeStage) -> Amounts:
        rows, shards = stage.tokens.num_rows, None
        if stage.hashes is not None and not self.has(stage.hashes):
            shards = expected_shards(rows, stage.rows_of_shard(self.sizing))
        if stage.model.encoder.by_table(stage.side):
            return Amounts(rows=rows, shards=shards)
        inputs = self._inputs(stage.model, stage.side, [self._texts_of(stage.tokens)], float(rows))
        return Amounts(rows=rows, shards=shards, inputs=inputs)

    def remember(self, base: StageSpec, *scores: ScoreStage | Stored) -> None:
        """Stages that come later share these scores, if they depend on the same; see score_base."""
        self._before.setdefault(canonical(base.without_derived()), []).extend(scores)

    def _asked(self, scores: ScoreStage | Stored) -> ForecastRequest:
        if isinstance(scores, Stored):
            keys: Keys | None = keys_of(scores.whole_table(schema.SCORES))
            return ForecastRequest(scores.identity, float(scores.num_rows), keys, frozenset())
        asked = _of_run(scores.candidates)
        keys = asked.keys(0, asked.num_rows) if self.has(asked.run) else None
        number = float(asked.request.expected(self._lines(asked.run)).sum())
        return ForecastRequest(asked.run.identity, number, keys, self.of(asked.run).made_of)

    def _scored(self, stage: ScoreStage) -> Amounts:
        """Exact if the runs of the request and of all earlier ones are there."""
        base, own = stage.base.without_derived(), self._asked(stage)
        before = self._before.get(canonical(base), [])
        # The rows of other collections' or queries' scores mean other texts.
        before = [
            each
            for each in before
            if isinstance(each, ScoreStage) or each.spec.params["base"] == base
        ]
        earlier = [self._asked(each) for each in before]
        self.remember(stage.base, stage)
        most, keys = own.number, own.keys
        if keys is not None:
            new = np.ones(len(keys[0]), bool)
            for each in earlier:
                new &= True if each.keys is None else missing(keys, each.keys)
            keys, most = (keys[0][new], keys[1][new], keys[2][new]), float(new.sum())
            earlier = [each for each in earlier if each.keys is None]
        same = [each.number for each in earlier if each.run == own.run]
        most -= min(most, max(same, default=0.0))
        least = expected = most
        for each in earlier:
            if each.run != own.run:
                shared = min(most, each.number)
                least -= shared
                related = bool(each.made_of & own.made_of)
                expected -= shared * (SHARED if related else SHARED_UNRELATED)
        least, expected = max(0.0, least), max(0.0, expected)
        texts = self._pair_texts(stage, stage.model, keys)
        return Amounts(
            rows=round(own.number),
            seconds=own.number * LINE_SECONDS,
            inputs=self._inputs(stage.model, "pair", texts, expected),
            inferences=(expected, least, most),
            shards=ranges(round(own.number), stage.rows_of_shard(self.sizing)),
            note=_IN_COMMON if least < most else "",
        )

    def _pair_texts(
        self, stage: ScoreStage, model: ModelFolder, keys: Keys | None = None
    ) -> list[TextSlice]:
        """The texts of some inputs: of these candidates; without them, texts drawn at random."""
        random = np.random.default_rng(0)
        sides = [stage.sides.queries, *[stage.sides.collection] * model.reranker.num_passages]
        prefixes = ["query", *["passage"] * model.reranker.num_passages]
        named = [model.conventions.prefix(prefix) for prefix in prefixes]
        if keys is not None and len(keys[0]) and all(self.has(side) for side in sides):
            few = random.integers(0, len(keys[0]), INPUTS)
            each = zip(sides, named, keys[: len(sides)], strict=True)
            return [_exact(side, rows[few], model, prefix) for side, prefix, rows in each]
        pieces = [
            self._pieces_of(side, model, prefix)[0]
            for side, prefix in zip(sides, named, strict=True)
        ]
        return [taken(each, random.integers(0, len(each.counts), INPUTS)) for each in pieces]

    def _texts_of(self, tokens: Stored | QueryTokens) -> TextSlice:
        if isinstance(tokens, QueryTokens):
            return tokens.part(np.arange(tokens.num_rows))
        found = self.of(tokens).pieces
        assert found is not None  # as all word pieces have
        return found

    def _inputs(
        self, model: ModelFolder, side: str, texts: Sequence[TextSlice], number: float
    ) -> ModelInputs:
        layout = layouts_of(model)[side]
        if side == "pair":
            kept = cut_to(model.reranker, texts[0], texts[1:], num_specials=layout.num_specials)
            lengths = layout.lengths([text.counts for text in kept])
        else:
            lengths = layout.lengths([np.minimum(texts[0].counts, model.encoder.limit(side))])
        return ModelInputs(model, side, tuple(texts), lengths, number)

    def _pieces_of(self, texts: Stored, model: ModelFolder, prefix: str) -> tuple[TextSlice, float]:
        """The word pieces of the sampled texts, and the CPU seconds that each took."""
        settings = model.conventions
        first = isinstance(settings, PairConventions) and settings.first_tokenizer
        key = (texts.origin, model.tokenizer_sha256, first, model.max_pieces, prefix)
        if key not in self._pieces:
            sample = self._sample(texts)
            began = process_time()
            pieces = _split(sample.texts, model, prefix)
            seconds = (process_time() - began) / max(1, len(sample.texts))
            self._pieces[key] = pieces, seconds
        return self._pieces[key]

    def _sample(self, texts: Stored) -> Sample:
        found = self.of(texts).sample
        assert found is not None  # as every table of texts has
        return found

    def _lines(self, run: Stored) -> Lines:
        found = self.of(run).lines
        assert found is not None  # as every run has
        return found


_UNTIMED = "the time of approximate search is not forecast"
_LEFT_OUT = "lines of a run file that will be left out are counted"
_IN_COMMON = (
    "inferences are a range: how many scores two requests over different runs share is known only "
    "once the runs are there"
)


def _of_run(candidates: Candidates) -> RunCandidates:
    assert isinstance(candidates, RunCandidates)
    return candidates


def _split(texts: Sequence[str], model: ModelFolder, prefix: str) -> TextSlice:
    word_pieces, batch = WordPieces(open_tokenizer(model)), pa.array(texts, pa.string())
    flat, offsets = concatenate([*pieces_of(word_pieces, [batch], model, prefix)])
    return TextSlice(flat, offsets[:-1], np.diff(offsets))


def _exact(texts: Stored, rows: Int64, model: ModelFolder, prefix: str) -> TextSlice:
    """The word pieces of rows of a table that is there."""
    distinct, places = np.unique(rows, return_inverse=True)
    found = column_of_rows(texts, distinct, "text", TEXTS[texts.spec.produces])
    return taken(_split(found, model, prefix), places)


def _of_pieces(
    pieces: TextSlice, seconds: float, rows: int, shards: Sequence[Shard] | None
) -> Amounts:
    """Every piece takes 2 or 4 bytes, every row an offset of 8."""
    found = round(_mean(pieces.counts) * rows)
    return Amounts(
        rows=rows,
        num_bytes=pieces.flat.itemsize * found + 8.0 * rows,
        seconds=seconds * rows,
        shards=shards,
        facts={"pieces": found},
        pieces=pieces,
    )


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0
