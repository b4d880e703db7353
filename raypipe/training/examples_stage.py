"""The stage that makes guarded examples from judgements, runs or triples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.config.training import Negatives, TrainingSet
from raypipe.errors import InputError
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.ids import TextHashes, hashes_of, id_index, own_rows
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, Stage
from raypipe.storage.records import Json, Shard, canonical, digest, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.training.documents import (
    BestPassages,
    DocumentPassages,
    document_examples,
    known_pairs,
)
from raypipe.training.examples import (
    Examples,
    Int64,
    RelevantTexts,
    distinct,
    pair_keys,
    permuted,
    write_examples,
)
from raypipe.training.guard import Dropped, Guard, lines_about, refused_queries
from raypipe.training.judgements import (
    Judged,
    RowsOf,
    judged_passages,
    triple_examples,
    without_copies,
)
from raypipe.training.negatives import (
    Short,
    Taught,
    TrainingRun,
    drawn_examples,
    labelled_examples,
    ranking_of,
    unlabelled_examples,
    with_first_stages,
)


@dataclass(frozen=True)
class OfDocuments:
    """The further stores that a set of documents reads: its qrels and runs name documents."""

    map: Stored
    """The map between passages and documents."""
    ids: Stored
    """The id index of the passages, with the hashes of their texts."""
    scores: Stored | None
    """A run of an earlier phase's model over the passages of the relevant documents."""


def runs_without(
    stores: Sequence[Stored], left_out: NDArray[np.int64], dropped: Dropped
) -> list[TrainingRun]:
    """The runs without the rows that may not be negatives, which are counted."""
    runs = []
    for stored in stores:
        ranking = ranking_of(stored)
        kept = ranking.without(left_out) if len(left_out) else ranking
        dropped.left_out_negative += len(ranking.passage_rows) - len(kept.passage_rows)
        runs.append(kept)
    return runs


def examples_of_documents(
    wanted: TrainingSet,
    found: OfDocuments,
    judged: Judged,
    runs: Sequence[TrainingRun],
    relevant_texts: RelevantTexts,
    window: Negatives,
    *,
    seed: int,
    short: Short,
) -> tuple[Examples, dict[str, Json]]:
    """The examples of a set of documents, and their facts; see `document_examples`."""
    assert wanted.documents is not None
    best = None
    if found.scores is not None and wanted.documents.best is not None:
        best = BestPassages(wanted.documents.best, Taught(ranking_of(found.scores)))
    passages = DocumentPassages(PassageMap(found.map), wanted.documents.passages)
    examples, not_best = document_examples(
        judged, runs, passages, relevant_texts, best, window, seed=seed, short=short
    )
    number = sum(map(len, judged.relevant.values()))
    return examples, {"documents": {"relevant": number, "not_best": not_best}}


def query_copies(texts: Sequence[str]) -> Int64:
    """The rows of queries whose text an earlier one has too, with the first row: int64 [2, n].

    Capital letters and runs of white space make no other text.
    """
    firsts: dict[str, int] = {}
    rows = [firsts.setdefault(" ".join(text.lower().split()), n) for n, text in enumerate(texts)]
    pairs = np.stack([np.arange(len(rows)), np.array(rows, np.int64)])
    return pairs[:, pairs[0] != pairs[1]]


def nothing_left(wanted: TrainingSet, name: str, facts: Mapping[str, Any]) -> str:
    """That a set has no example, with what it is made from and the counts of what was left out."""
    made_from = [f"the collection {wanted.collection}", f"queries {wanted.queries}"]
    if wanted.triples is not None:
        made_from.append(f"triples {wanted.triples}")
    if wanted.qrels is not None:
        made_from.append(f"grades of {wanted.min_grade} or higher in {wanted.qrels}")
    if (pairs := wanted.negatives or wanted.pairs) is not None:
        made_from.append(f"the first {pairs.last} of {', '.join(pairs.runs) or 'its own search'}")
    return (
        f"train.{name}: no example is left of {', '.join(made_from)}: "
        f"{'; '.join(lines_about(name, facts))}. Widen what leaves most out; if nothing is left "
        "out, give judgements, runs or triples of these queries"
    )


def of_one_label(wanted: TrainingSet, name: str, facts: Mapping[str, Any]) -> str:
    """That the candidates of `pairs` are all relevant, or all irrelevant."""
    assert wanted.pairs is not None
    which = "relevant" if facts["relevant"] else "irrelevant"
    return (
        f"train.{name}.pairs: expected relevant and irrelevant passages, found "
        f"{facts['examples']:,} that are all {which}: the first {wanted.pairs.last} of "
        f"{', '.join(wanted.pairs.runs)} with grades of {wanted.min_grade} or higher in "
        f"{wanted.qrels}; raise pairs.last, give "
        "other runs, or draw negatives, whose examples each have one relevant passage"
    )


SEMANTICS = 6


@dataclass(frozen=True)
class ExamplesStage(Stage):
    """Examples of one training set, in the order of its queries or of its triples."""

    wanted: TrainingSet
    collection: Stored
    """What the qrels and runs name: passages, or documents."""
    ids: Stored
    queries: Stored
    runs: tuple[Stored, ...]
    teacher: Stored | None
    teacher_last: int | None
    """The last rank that the teacher scored; None means all."""
    guard: Guard
    seed: int
    name: str = ""
    """The name of the set, for messages."""
    in_batch: bool = False
    """Whether the loss uses a batch's other passages as negatives."""
    documents: OfDocuments | None = None
    first_stages: tuple[Stored, ...] = ()
    """The runs of `wanted.blend`."""

    @property
    def spec(self) -> StageSpec:
        """The texts, the judgements, the runs, the guard and how examples are drawn."""
        wanted, guard = self.wanted, self.guard
        negatives = wanted.negatives
        how = None if negatives is None else negatives.model_dump(exclude={"runs", "mine"})
        guarded = [list(guard.queries), sorted(guard.left_out), sorted(guard.shared)]
        params = {
            "min_grade": wanted.min_grade,
            "negatives": how,
            "guard": digest(canonical(guarded)),
            "near_copy": guard.near_copy,
            "seed": self.seed,
            "at_most": wanted.examples_at_most,
            "in_batch": self.in_batch,
            "teacher_last": self.teacher_last,
        }
        if wanted.pairs is not None:
            params["pairs"] = wanted.pairs.model_dump(exclude={"runs"})
        stores = {"collection": self.collection, "queries": self.queries}
        stores |= {f"run.{number}": run for number, run in enumerate(self.runs)}
        stores |= {"teacher": self.teacher} if self.teacher else {}
        if wanted.blend is not None:
            params["blend"] = wanted.blend.model_dump(exclude={"runs"})
            stores |= {f"blend.{number}": run for number, run in enumerate(self.first_stages)}
        if self.documents is not None and wanted.documents is not None:
            params["documents"] = wanted.documents.model_dump(exclude={"scored_by"})
            stores["map"] = self.documents.map
            stores |= {"scores": self.documents.scores} if self.documents.scores else {}
        files = {"qrels": wanted.qrels, "triples": wanted.triples}
        content = {f"content:{key}": hash_file(Path(file)) for key, file in files.items() if file}
        return spec_over(
            "examples", SEMANTICS, params, stores, produces="examples", content=content
        )

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.queries.num_rows)]

    def open(self, site: Site) -> Opened:
        """The opened stage; its facts are the number of examples and what the guard dropped.

        Its `run` raises InputError for ids that are not in the collection or query set, and if no
        example is left.
        """
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        beat(())
        dropped, short = Dropped(), Short()
        more_facts: dict[str, Json] = {}
        table = self.queries.table(schema.QUERIES)
        texts = table["text"].to_pylist()
        rows = {query_id: row for row, query_id in enumerate(table["query_id"].to_pylist())}
        refused = refused_queries(texts, self.guard, dropped)
        index = id_index(self.collection, self.ids)
        left_out = self._left_out(index.rows_of)
        judged, same_queries = Judged(), query_copies(texts)
        if self.wanted.qrels is not None:
            # If there are triples and qrels, the triples are counted.
            counts = dropped if self.wanted.triples is None else Dropped()
            judged = judged_passages(self.wanted, rows, index.rows_of, refused, self.guard, counts)
        runs = runs_without(self.runs, left_out, dropped)
        if self.wanted.triples is not None:
            examples = triple_examples(
                Path(self.wanted.triples),
                rows,
                index.rows_of,
                refused,
                self.guard,
                dropped,
                scratch,
                lambda: beat(()),
            )
            pairs = distinct(examples.query_rows, examples.passage_rows[:, 0])
            relevant_texts = self._texts(np.union1d(pairs, judged.pairs()), same_queries)
            examples, short.copies = without_copies(examples, relevant_texts)
        elif self.documents is not None:
            assert self.wanted.negatives is not None
            pairs = known_pairs(judged, PassageMap(self.documents.map))
            relevant_texts = self._texts(pairs, same_queries)
            # Of whole documents only the queries are compared; of their passages the texts too.
            of_documents = RelevantTexts.of(judged.pairs(), same_queries, None)
            runs = self._without_copies(runs, judged, of_documents, refused, short)
            examples, more_facts = examples_of_documents(
                self.wanted,
                self.documents,
                judged,
                runs,
                relevant_texts,
                self.wanted.negatives,
                seed=self.seed,
                short=short,
            )
        else:
            relevant_texts = self._texts(judged.pairs(), same_queries)
            runs = self._without_copies(runs, judged, relevant_texts, refused, short)
            examples = self._drawn(judged, runs, refused, short)
        if self.wanted.blend is not None:
            examples = with_first_stages(
                examples,
                [ranking_of(run) for run in self.first_stages],
                last=self.wanted.blend.last,
                none=self.wanted.blend.none,
                seed=self.seed,
            )
        examples = self._with_relevant(examples, relevant_texts)
        examples = _first(examples, self.wanted.examples_at_most, self.seed)
        facts = {
            "rows": shard.num_rows,
            "examples": examples.num_examples,
            "passages": examples.num_passages,
            "queries": len(distinct(examples.query_rows)),
            "dropped": {k: v for k, v in vars(dropped).items() if k != "samples"},
            "samples": dropped.samples,
            "short": vars(short),
            **more_facts,
        }
        if judged.grades and self.wanted.triples is None:
            facts["grades"] = {str(grade): judged.grades[grade] for grade in sorted(judged.grades)}
        if empty := self._without_text(examples):
            facts["relevant_without_text"] = empty
        if judged.unknown:
            facts["unknown_queries"] = len(judged.unknown)
        if examples.labels is not None:
            facts["relevant"] = int(examples.labels.sum())
        if not examples.num_examples:
            raise InputError(nothing_left(self.wanted, self.name, facts))
        if examples.labels is not None and facts["relevant"] in (0, examples.num_examples):
            raise InputError(of_one_label(self.wanted, self.name, facts))
        if examples.teacher is not None:
            scores = examples.teacher
            facts["teacher_scores"] = [float(np.nanmin(scores)), float(np.nanmax(scores))]
        path = scratch / "examples.safetensors"
        write_examples(path, examples)
        return Payload(path, facts)

    def _without_text(self, examples: Examples) -> int:
        """The number of passages that are learnt as relevant and have no text."""
        unlabelled = self.wanted.qrels is None and self.wanted.triples is None
        if self.documents is not None or unlabelled:
            return 0
        relevant = examples.passage_rows[:, 0]
        if examples.labels is not None:
            relevant = relevant[examples.labels[:, 0] > 0]
        hashes = TextHashes(self.ids).hashes
        empty = hashes_of(pa.chunked_array([[""]]))
        return int((hashes[distinct(relevant)] == empty).all(axis=1).sum())

    def _texts(self, pairs: Int64, same_queries: Int64) -> RelevantTexts:
        """The texts of relevant pairs, and of queries that are passages themselves.

        Two passages are copies if their texts are equal bytes.
        """
        if self.documents is None:
            ids, rows = self.ids, own_rows(self.queries, self.collection, self.ids)
            own = np.flatnonzero(rows >= 0)
            pairs = np.union1d(pairs, pair_keys(own, rows[own]))
        else:
            ids = self.documents.ids
        return RelevantTexts.of(pairs, same_queries, TextHashes(ids).copies())

    def _with_relevant(self, examples: Examples, relevant_texts: RelevantTexts) -> Examples:
        """The examples with what is relevant for their queries: by the qrels, and the triples.

        Pairs of the triples alone are used if a batch's passages are each other's negatives.
        """
        if self.wanted.qrels is None and not self.in_batch:
            return examples
        queries, passages = relevant_texts.query_copies, relevant_texts.passage_copies
        assert queries is not None and passages is not None
        if passages.size:
            passages = passages[
                :, np.isin(passages[0], distinct(examples.passage_rows.reshape(-1)))
            ]
        return replace(
            examples,
            relevant=relevant_texts.keys,
            query_copies=queries if queries.size else None,
            passage_copies=passages if passages.size else None,
        )

    def _without_copies(
        self,
        runs: Sequence[TrainingRun],
        judged: Judged,
        relevant_texts: RelevantTexts,
        refused: set[int],
        short: Short,
    ) -> list[TrainingRun]:
        """The runs without what is no negative by its text, counted where it could be one."""
        cleared, pairs, window = [], judged.pairs(), self.wanted.negatives or self.wanted.pairs
        assert window is not None
        first = 1 if self.wanted.negatives is None else self.wanted.negatives.first
        learnt = set(judged.relevant)
        if self.wanted.pairs is not None:  # queries without a relevant passage are learnt too
            learnt = set(range(self.queries.num_rows)) - refused
        for run in runs:
            others, queries, ranks = run.without_copies(pairs, relevant_texts)
            near = (ranks >= first) & (ranks <= window.last) & np.isin(queries, sorted(learnt))
            short.copies += int(near.sum())
            cleared.append(others)
        return cleared

    def _drawn(
        self, judged: Judged, runs: Sequence[TrainingRun], refused: set[int], short: Short
    ) -> Examples:
        pairs, window = self.wanted.pairs, self.wanted.negatives
        if pairs is not None:
            return labelled_examples(judged.relevant, judged.known, runs, pairs.last, refused)
        assert window is not None
        teacher = None if self.teacher is None else ranking_of(self.teacher)
        if teacher is not None and teacher.scores_are_of_ranks():
            raise InputError(
                f"train.{self.name}.teacher: {self.wanted.teacher}: expected a teacher's scores, "
                "found 1 / rank in every line, as of a run without scores; give the teacher's own"
            )
        if teacher is not None and self.teacher_last is not None:
            teacher = teacher.upto(self.teacher_last)
        if self.wanted.qrels is None:
            assert teacher is not None
            queries = set(range(self.queries.num_rows)) - refused
            return unlabelled_examples(queries, runs, teacher, window, seed=self.seed, short=short)
        return drawn_examples(
            judged.relevant, judged.known, runs, teacher, window, seed=self.seed, short=short
        )

    def _left_out(self, rows_of: RowsOf) -> NDArray[np.int64]:
        ids = sorted(self.guard.left_out)
        rows = rows_of(ids)
        if ids and (rows < 0).all():
            raise InputError(
                f"guard: leave_out_passages: none of {len(ids):,} judged passages is in the "
                f"collection {self.wanted.collection}, first {ids[0]}; name the qrels' own "
                "collection"
            )
        return rows[rows >= 0]


def _first(examples: Examples, count: int | None, seed: int) -> Examples:
    """The examples that are first in a seeded order, in their original order."""
    size = examples.num_examples
    if count is None or count >= size:
        return examples
    chosen = np.sort(permuted(np.arange(count), size=size, seed=seed, epoch=0))
    names = ("query_rows", "passage_rows", "runs", "ranks", "teacher", "labels", "first_stage")
    held = {name: getattr(examples, name) for name in names}
    kept = {name: value[chosen] for name, value in held.items() if value is not None}
    return replace(examples, **kept)
