"""A training set as a store: judgements, runs or triples made into guarded examples."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe import schema
from raypipe.config.training import TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.stages.ids import id_index
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing
from raypipe.storage.records import Json, Shard, canonical, digest, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored
from raypipe.training.draw import Ranking, Short, Window, drawn_examples
from raypipe.training.examples import Examples, pair_keys, write_examples
from raypipe.training.guard import Dropped, Guard, refused_queries
from raypipe.training.sampler import permuted
from raypipe.training.triples import triple_examples

SEMANTICS = 2


@dataclass
class ExamplesStage:
    """Examples of one training set, in the order of its queries or of its triples."""

    wanted: TrainingSet
    collection: Stored
    ids: Stored
    queries: Stored
    runs: tuple[Stored, ...]
    teacher: Stored | None
    guard: Guard
    seed: int
    name: str = ""
    """Of the set, for messages."""
    in_batch: bool = False
    """Whether the loss takes a batch's other documents as negatives."""
    needs: Needs = field(default_factory=Needs)

    @cached_property
    def spec(self) -> StageSpec:
        """The texts, the judgements, the runs, the guard and how examples are drawn."""
        wanted, guard = self.wanted, self.guard
        negatives = wanted.negatives
        how = None if negatives is None else negatives.model_dump(exclude={"runs"})
        guarded = [list(guard.queries), sorted(guard.left_out), sorted(guard.shared)]
        params = {
            "min_grade": wanted.min_grade,
            "negatives": how,
            "guard": digest(canonical(guarded)),
            "seed": self.seed,
            "at_most": wanted.examples_at_most,
            "in_batch": self.in_batch,
        }
        inputs = {"collection": self.collection.digest, "queries": self.queries.digest}
        inputs |= {f"run.{number}": run.digest for number, run in enumerate(self.runs)}
        inputs |= {"teacher": self.teacher.digest} if self.teacher else {}
        inputs |= {"content:qrels": hash_file(Path(wanted.qrels))} if wanted.qrels else {}
        inputs |= {"content:triples": hash_file(Path(wanted.triples))} if wanted.triples else {}
        return StageSpec("examples", SEMANTICS, params, inputs)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One."""
        return [Shard(0, 0, self.queries.num_rows)]

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The examples; facts tell their number and what the guard dropped.

        Raises:
            InputError: ids that are not in the collection or query set; nothing is left.
        """
        beat(())
        dropped, short = Dropped(), Short()
        table = self.queries.table(schema.QUERIES)
        texts = table["text"].to_pylist()
        rows = {query_id: row for row, query_id in enumerate(table["query_id"].to_pylist())}
        refused = refused_queries(texts, self.guard, dropped)
        relevant = self._relevant(rows, refused, dropped)
        path = self._scratch / "examples.safetensors"
        if self.wanted.triples is not None:
            index = id_index(self.collection, self.ids)
            examples = triple_examples(
                Path(self.wanted.triples),
                rows,
                index.rows_of,
                refused,
                self.guard,
                dropped,
                self._scratch,
                lambda: beat(()),
            )
        else:
            examples = self._drawn(relevant, dropped, short)
        examples = replace(examples, relevant=self._pairs(examples))
        if not examples.num_examples:
            raise InputError(self._nothing_left(relevant, short))
        examples = _first(examples, self.wanted.examples_at_most, self.seed)
        write_examples(path, examples)
        facts = {
            "rows": shard.num_rows,
            "examples": examples.num_examples,
            "passages": examples.num_passages,
            "queries": len(np.unique(examples.query_rows)),
            "dropped": {k: v for k, v in vars(dropped).items() if k != "samples"},
            "samples": dropped.samples,
            "short": vars(short),
        }
        return Payload(path, facts)

    def _pairs(self, examples: Examples) -> NDArray[np.int64] | None:
        """Every pair known as relevant, sorted: of the qrels, else those of the triples where
        documents of a batch are each other's negatives."""
        if self.wanted.qrels is None:
            if not self.in_batch:
                return None
            queries = examples.query_rows.astype(np.int64)
            return np.unique(pair_keys(queries, examples.passage_rows[:, 0].astype(np.int64)))
        pairs = [(query, passage) for query, found in self._known.items() for passage in found]
        told = np.array(pairs, np.int64).reshape(-1, 2)
        return np.sort(pair_keys(told[:, 0], told[:, 1]))

    def _nothing_left(self, relevant: dict[int, list[int]], short: Short) -> str:
        where = f"train.{self.name}: no example is left: "
        wanted = self.wanted
        if wanted.triples is not None:
            return f"{where}the guard refuses every triple of {wanted.triples}"
        if not relevant:
            return (
                f"{where}{wanted.qrels} has no judgement of grade {wanted.min_grade} or higher "
                f"for a query of {wanted.queries} that the guard leaves"
            )
        negatives = wanted.negatives
        assert negatives is not None
        if short.without_teacher:
            return f"{where}{wanted.teacher} has no score of a relevant passage"
        if negatives.relevant_last is not None and not short.without_negatives:
            return (
                f"{where}no relevant passage is in ranks 1 to {negatives.relevant_last} of "
                f"{', '.join(negatives.runs)}; raise negatives.relevant_last"
            )
        return (
            f"{where}no relevant passage has {negatives.per_example} irrelevant ones in ranks "
            f"{negatives.first} to {negatives.last} of {', '.join(negatives.runs)}"
        )

    def _relevant(
        self, rows: Mapping[str, int], refused: set[int], dropped: Dropped
    ) -> dict[int, list[int]]:
        """Query row -> rows of what is learnt as relevant, in the order of the qrels.

        A lower grade above 0 is neither learnt as relevant nor drawn as irrelevant.
        """
        if self.wanted.qrels is None:
            return {}
        qrels = read_qrels(Path(self.wanted.qrels))
        found: dict[int, list[int]] = {}
        self._known: dict[int, set[int]] = {}
        passage_rows = id_index(self.collection, self.ids).rows_of(qrels["passage_id"].to_pylist())
        self._refuse_unknown(qrels["passage_id"].to_pylist(), passage_rows)
        columns = (qrels["query_id"], qrels["passage_id"], qrels["relevance"])
        told = zip(*(c.to_pylist() for c in columns), passage_rows.tolist(), strict=True)
        for query_id, passage_id, grade, passage in told:
            row = rows.get(query_id)
            if row is None:
                continue  # judgements of other splits stand in the same file
            if grade > 0:
                self._known.setdefault(row, set()).add(passage)
            if grade < self.wanted.min_grade or row in refused:
                continue
            if passage_id in self.guard.left_out:
                dropped.left_out_positive += 1
            else:
                dropped.shared_passages += passage_id in self.guard.shared
                found.setdefault(row, []).append(passage)
        return found

    def _drawn(self, relevant: dict[int, list[int]], dropped: Dropped, short: Short) -> Examples:
        negatives = self.wanted.negatives
        assert negatives is not None
        left_out = self._left_out()
        runs = []
        for stored in self.runs:
            ranking = _ranking(stored)
            if not len(left_out):
                runs.append(ranking)
                continue
            keep = ~np.isin(ranking.passage_rows, left_out)
            dropped.left_out_negative += int((~keep).sum())
            runs.append(
                Ranking(
                    ranking.query_rows[keep],
                    ranking.passage_rows[keep],
                    ranking.ranks[keep],
                    ranking.scores[keep],
                )
            )
        teacher = None if self.teacher is None else _ranking(self.teacher)
        window = Window(
            first=negatives.first,
            last=negatives.last,
            per_example=negatives.per_example,
            examples=negatives.examples,
            above_teacher=negatives.above_teacher,
            relevant_last=negatives.relevant_last,
        )
        return drawn_examples(
            relevant, self._known, runs, teacher, window, seed=self.seed, short=short
        )

    def _left_out(self) -> NDArray[np.int64]:
        ids = sorted(self.guard.left_out)
        found = id_index(self.collection, self.ids).rows_of(ids)
        return np.sort(found[found >= 0])

    def _refuse_unknown(self, ids: list[str], rows: NDArray[np.int64]) -> None:
        missing = sorted({ids[place] for place in np.flatnonzero(rows < 0)})
        if missing:
            raise InputError(
                f"{self.wanted.qrels}: {len(missing)} passage ids are not in the collection "
                f"{self.wanted.collection}, first {', '.join(missing[:10])}"
            )


def _first(examples: Examples, count: int | None, seed: int) -> Examples:
    """So many of a seeded order, in the order they had."""
    size = examples.num_examples
    if count is None or count >= size:
        return examples
    chosen = np.sort(permuted(np.arange(count), size=size, seed=seed, epoch=0))
    names = ("query_rows", "passage_rows", "runs", "ranks", "teacher")
    held = {name: getattr(examples, name) for name in names}
    kept = {name: value[chosen] for name, value in held.items() if value is not None}
    return replace(examples, **kept)


def _ranking(stored: Stored) -> Ranking:
    table = read_queries_of_run(stored, 0, stored.num_rows)
    names = ("query_row", "passage_row", "rank", "score")
    return Ranking(*(table[name].to_numpy() for name in names))
