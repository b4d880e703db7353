"""Examples of one passage with its label: every first candidate of a run."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from raypipe.training.examples.rankings import Ranking
from raypipe.training.examples.table import Examples, Int64, pair_keys


def labelled_examples(
    relevant: Mapping[int, Sequence[int]],
    known: Mapping[int, set[int]],
    runs: Sequence[Ranking],
    last: int,
    refused: set[int],
) -> Examples:
    """The candidates of each query up to a rank, by query row; label 1.0 if relevant, else 0.0.

    A candidate of several runs is one example, of the first of them. Candidates with a grade above
    0 that is too low to be relevant are left out. Source: Nogueira & Cho 2019, section 3.1, and its
    code, which fills up short lists with one irrelevant passage; we do not.

    Args:
        relevant: query row -> rows of relevant passages.
        known: query row -> rows of all passages with a grade above 0.
        runs: the sources of the candidates.
        last: the last rank that is used.
        refused: query rows that must not be trained on.
    """
    wanted, seen = _keys(relevant), _keys(known)
    nears = [run.upto(last) for run in runs]
    queries = np.concatenate([near.query_rows for near in nears])
    passages = np.concatenate([near.passage_rows for near in nears])
    ranks = np.concatenate([near.ranks for near in nears])
    numbers = np.repeat(np.arange(len(nears)), [len(near.ranks) for near in nears])
    keys = pair_keys(queries, passages)
    is_relevant = np.isin(keys, wanted)
    usable = (is_relevant | ~np.isin(keys, seen)) & ~np.isin(queries, sorted(refused))
    _, firsts = np.unique(keys, return_index=True)
    kept = firsts[usable[firsts]]
    kept = kept[np.lexsort((ranks[kept], numbers[kept], queries[kept]))]
    return Examples(
        query_rows=queries[kept].astype(np.int32),
        passage_rows=passages[kept, None].astype(np.int32),
        runs=numbers[kept, None].astype(np.uint8),
        ranks=ranks[kept, None].astype(np.int32),
        labels=is_relevant[kept, None].astype(np.float32),
    )


def _keys(pairs: Mapping[int, Collection[int]]) -> Int64:
    counts = [len(passages) for passages in pairs.values()]
    queries = np.repeat(np.array([*pairs], np.int64), counts)
    passages = [passage for found in pairs.values() for passage in found]
    return pair_keys(queries, np.array(passages, np.int64))
