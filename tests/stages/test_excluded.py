"""Excluded passages take no place: every run is that of a search of all, without them, cut."""

import csv
import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lucene_here import packed
from zebra_texts import TEXTS

from raypipe import schema
from raypipe.engines.lucene.search import Feedback
from raypipe.errors import InputError
from raypipe.stages.ann.build import CodesStage, hnsw_stage, train_stage
from raypipe.stages.ann.recall import measured, recall_stage
from raypipe.stages.ann.search import AnnSearchStage
from raypipe.stages.bm25 import Bm25Stage
from raypipe.stages.documents.rank import passages_run_stage
from raypipe.stages.excluded import NOTHING, Excluded, excluded_stage, read_excluded
from raypipe.stages.ids import ids_stage
from raypipe.stages.read_run import read_stage
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.sparse import SparsePartsStage
from raypipe.stages.stage import Sizing
from raypipe.stages.tables import Sides

NUM_QUERIES, NUM_PASSAGES, DEPTH = 7, 40, 5
PAIRS = [
    *((0, row) for row in range(NUM_PASSAGES)),  # every passage
    *((1, row) for row in range(0, NUM_PASSAGES, 2)),
    (3, 39), (3, 0), (4, 7), (6, 1), (6, 2), (6, 3),
]  # fmt: skip
"""Query row and passage row; queries 2 and 5 exclude nothing."""


def excluding(stores, pairs):
    columns = [list(column) for column in zip(*sorted(pairs), strict=True)]
    return Excluded(stores.tables(schema.EXCLUDED, columns, ranges=[(0, NUM_QUERIES)]))


def lines(stored):
    return [tuple(line.values()) for line in stored.whole_table(schema.RUN).to_pylist()]


def without(whole, pairs, depth):
    """The lines of a run that are not excluded, ranked anew, the first `depth` of each query."""
    found, ranks = [], {}
    for query, row, _, *rest in whole:
        if (query, row) not in pairs:
            ranks[query] = ranks.get(query, 0) + 1
            found.append((query, row, ranks[query], *rest))
    return [line for line in found if line[2] <= depth]


@pytest.fixture
def vectors(stores):
    """Embeddings in four shards with many equal products, and queries in two."""
    rng = np.random.default_rng(5)
    rows, asked = rng.integers(-1, 2, (NUM_PASSAGES, 4)), rng.integers(-1, 2, (NUM_QUERIES, 4))
    return stores.vectors(*np.split(rows, [9, 10, 30])), stores.vectors(asked[:3], asked[3:])


@pytest.mark.parametrize(("actors", "block"), [(1, 9), (3, 1), (3, 2)])
def test_an_exact_search_is_that_of_all_without_them(stores, vectors, actors, block):
    def run(depth, excluded=NOTHING):
        sizing = Sizing(num_actors=actors, shard_queries=block)
        parts = stores.finished(PartsStage("s", *vectors, depth, excluded=excluded), sizing)
        return lines(stores.finished(merge_stage("s", parts, stores.sides(7), depth), sizing))

    found = run(DEPTH, excluding(stores, PAIRS))
    assert found == without(run(NUM_PASSAGES), PAIRS, DEPTH)
    assert {line[0] for line in found} == {1, 2, 3, 4, 5, 6}
    assert len({line[3] for line in found if line[0] == 2}) < DEPTH  # equal scores, by row


@pytest.mark.parametrize("kind", ["graph", "lists"])
@pytest.mark.parametrize("block", [1, 9])
def test_an_approximate_search_proposes_more_for_them(stores, vectors, kind, block):
    embeddings, queries = vectors
    if kind == "graph":
        index, centres = stores.finished(hnsw_stage(embeddings, 8, 40)), None
    else:
        centres = stores.finished(
            train_stage(embeddings, lists=2, code_bytes=2, train_rows=40, seed=1)
        )
        index = stores.finished(CodesStage(embeddings, centres))

    def run(depth, refine, excluded=NOTHING):
        effort = {"ef_search": 2 * DEPTH} if kind == "graph" else {"probes": 2}
        given = (index, centres, embeddings, queries, stores.sides(7), depth, refine)
        stage = AnnSearchStage("s", *given, **effort, excluded=excluded)
        return stores.finished(stage, Sizing(shard_queries=block))

    excluded = excluding(stores, PAIRS)
    assert lines(run(DEPTH, 8, excluded)) == without(lines(run(NUM_PASSAGES, 1)), PAIRS, DEPTH)
    found, alone = run(DEPTH, 1, excluded), lines(run(DEPTH, 1))
    of_three = excluding(stores, [(3, line[1]) for line in alone if line[0] == 3])
    more = lines(run(DEPTH, 1, of_three))  # all that it was proposed: as many others are
    assert len([line for line in more if line[0] == 3]) == DEPTH
    assert [line for line in more if line[0] != 3] == [line for line in alone if line[0] != 3]
    recall = recall_stage(run(DEPTH, 8, excluded), embeddings, queries, DEPTH, 100, excluded)
    assert measured(stores.finished(recall)).by_cutoff == {DEPTH: 1.0}
    spec = recall_stage(found, embeddings, queries, DEPTH, 100).spec
    assert "excluded" in recall.spec.inputs and "excluded" not in spec.inputs


def test_a_search_of_impacts_is_that_of_all_without_them(stores):
    rng = np.random.default_rng(2)

    def rows(number):
        words = [sorted(set(rng.integers(0, 6, 3).tolist())) for _ in range(number)]
        return [[word << 12 | 2 for word in each] for each in words]

    impacts = stores.tokens(rows(15), rows(25), dtype=np.uint32)
    asked = stores.tokens(rows(NUM_QUERIES), dtype=np.uint32)

    def run(depth, excluded=NOTHING):
        stage = SparsePartsStage("s", impacts, asked, depth, 6, excluded=excluded)
        parts = stores.finished(stage, Sizing(num_actors=2, shard_queries=3))
        return lines(stores.finished(merge_stage("s", parts, stores.sides(7), depth)))

    assert run(DEPTH, excluding(stores, PAIRS)) == without(run(NUM_PASSAGES), PAIRS, DEPTH)


@pytest.mark.jvm
@pytest.mark.parametrize("rm3", [None, Feedback(fb_docs=2, fb_terms=3)])
def test_a_search_of_words_is_that_of_all_without_them(stores, zebra_index, rm3):
    texts = ["horses", "unicorn", "zebra crossing", "stripes", "zebra", "a zebra has stripes", "x"]
    sides = Sides(stores.queries(*texts), stores.passages(TEXTS))
    index = packed(stores, zebra_index, len(TEXTS))

    def run(depth, excluded=NOTHING):
        stage = Bm25Stage("s", sides, index, 0.9, 0.4, depth, rm3, excluded)
        return lines(stores.finished(stage, Sizing(shard_queries=3)))

    whole = run(len(TEXTS))
    pairs = [(query, row) for query, row, rank, *_ in whole if query == 0 or rank % 2]
    pairs += [(1, 0), (6, 2)]
    found = run(2, excluding(stores, pairs))
    assert found == without(whole, pairs, 2) and len({line[0] for line in found}) > 2


def test_a_given_run_is_ranked_without_them(stores, tmp_path):
    collection, queries = stores.passages(["a"] * 30, ["b"] * 10), stores.queries(*"qrstuvw")
    ids = stores.finished(ids_stage(collection))
    file = tmp_path / "given.trec"
    ranking = [(query, (query + 3 * rank) % 40, rank) for query in (6, 0, 3) for rank in range(20)]
    file.write_text("".join(f"q{q} Q0 p{row} {r + 1} {20 - r} t\n" for q, row, r in ranking))

    def run(excluded=NOTHING, **more):
        stage = read_stage("s", file, Sides(queries, collection), ids, excluded=excluded, **more)
        return stores.finished(stage)

    whole, excluded = lines(run()), excluding(stores, PAIRS)
    assert lines(run(excluded)) == without(whole, PAIRS, 20) != whole
    larger = run(excluded, of_larger=True)
    assert lines(larger) == without(whole, PAIRS, 20)
    assert larger.manifest.records[0].facts["left_out"] == 0  # of passages that are not here


def test_passages_of_documents_leave_no_gap_where_one_is_excluded(stores):
    from raypipe.stages.documents.passage_map import MapStage

    homes = [["D0", "D0", "D0", "D1", "D2", "D2"], ["", "", "", "", "", ""]]
    known = stores.finished(MapStage(stores.tables(schema.HOMES, homes), given=True))
    run = stores.run([(0, 0, 3.0), (0, 1, 2.0), (1, 0, 3.0), (1, 2, 1.0)])
    excluded = excluding(stores, [(0, 0), (0, 3), (1, 5)])
    stage = passages_run_stage("s", run, known, stores.sides(7), 10, 2, excluded)
    assert [line[:3] for line in lines(stores.finished(stage))] == [
        (0, 1, 1), (0, 2, 2), (1, 0, 1), (1, 1, 2), (1, 4, 3),
    ]  # fmt: skip


def ids_of(stores, query_ids, passage_ids):
    queries = stores.tables(schema.QUERIES, [query_ids, ["x"] * len(query_ids)])
    passages = stores.tables(schema.PASSAGES, [passage_ids, ["y"] * len(passage_ids)])
    return queries, passages, stores.finished(ids_stage(passages))


def excluded_rows(stored):
    return [tuple(row.values()) for row in stored.whole_table(schema.EXCLUDED).to_pylist()]


def test_a_querys_own_id_is_found_among_the_passages(stores):
    sides = ids_of(stores, ["c", "x", "a"], ["a", "b", "c"])
    stored = stores.finished(excluded_stage("own-id", *sides))
    assert excluded_rows(stored) == [(0, 2), (2, 0)]
    facts = stored.manifest.records[0].facts
    assert [facts[name] for name in ("pairs", "of_set", "present")] == [3, 3, 2]


def test_pairs_of_a_file_are_counted_by_what_is_there(stores, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("y b\nx a\nx b\nx b\nx nowhere\nother a\n")
    stored = stores.finished(excluded_stage(str(file), *ids_of(stores, ["x", "y"], ["a", "b"])))
    assert excluded_rows(stored) == [(0, 0), (0, 1), (1, 1)]
    facts = stored.manifest.records[0].facts
    assert [facts[name] for name in ("pairs", "of_set", "present")] == [5, 4, 3]


def test_a_run_is_named_by_the_content_of_its_exclusions_and_as_ever_without(stores, tmp_path):
    sides = ids_of(stores, ["x", "y"], ["a", "b"])
    first, moved, second = (tmp_path / name for name in ("one", "moved", "two"))
    for file, text in ((first, "x a\n"), (moved, "x a\n"), (second, "x b\n")):
        file.write_text(text)
    stages = [excluded_stage(str(each), *sides) for each in ("own-id", first, moved, second)]
    own, one, same, other = (stage.spec.fingerprint() for stage in stages)
    assert one == same and len({own, one, other}) == 3
    embeddings, queries = stores.vectors(np.ones((2, 2))), stores.vectors(np.ones((2, 2)))
    excluded = [NOTHING, *(Excluded(stores.finished(stages[i])) for i in (0, 1, 3))]
    specs = [PartsStage("s", embeddings, queries, 3, excluded=each).spec for each in excluded]
    assert len({spec.fingerprint() for spec in specs}) == 4
    assert sorted(specs[0].inputs) == ["embeddings", "queries"]


FORMS = {
    "two columns": "q1\tp1\nq1\tp2\n\nq2\tp1\n",
    "blanks": "q1 p1\nq1  p2\nq2 p1",
    "query, passage and rank or score": "q1 p1 1\nq1 p2 0.5\nq2 p1 x\n",
    "judgements": "q1 0 p1 1\nq1 0 p2 0\nq2 Q0 p1 2\n",
    "a TREC run": "q1 Q0 p1 1 9.5 t\nq1 Q0 p2 2 9 t\nq2 Q0 p1 1 3 t\n",
    "JSON": json.dumps({"q1": {"p1": 1, "p2": 0}, "q2": {"p1": 1}}),
    "BEIR's header": "query-id\tcorpus-id\tscore\nq1\tp1\t1\nq1\tp2\t0\nq2\tp1\t1\n",
    "other columns": "score,docno,n,qid\n1,p1,x,q1\n,p2,y,q1\n0,p1,z,q2\n",
    "quotes": 'query_id;passage_id\n"q1";"p1"\nq1;p2\nq2;"p1"\n',
    "JSON lines of pairs": '{"qid": "q1", "docno": "p1", "tags": [1]}\n\n'
    '{"qid": "q1", "docno": "p2", "score": 0.5}\n{"docno": "p1", "qid": "q2"}',
    "an array of pairs": json.dumps(
        [{"query_id": q, "passage_id": p} for q, p in (("q1", "p1"), ("q1", "p2"), ("q2", "p1"))],
        indent=1,
    ),
    "JSON lines of a run": "".join(
        json.dumps({"query_id": q, "doc_id": p, "score": 3}) + "\n"
        for q, p in (("q1", "p1"), ("q1", "p2"), ("q2", "p1"))
    ),
    "judgements over several lines": json.dumps(
        {"q1": {"p1": 1, "p2": 0}, "q2": {"p1": 1}}, indent=1
    ),
    "a query of judgements twice": '{"q1": {"p1": 1}, "q1": {"p2": 0}, "q2": {"p1": 1}}',
    "a header between blanks": "query_id passage_id\nq1 p1\nq1 p2\n q2   p1 \n",
    "comments": "# what to leave out\n#\nq1 p1\n# more of it\nq1 p2\nq2 p1\n",
    "a comment before a header": "# pairs\n\nquery_id,passage_id\nq1,p1\nq1,p2\nq2,p1\n",
    "a header that names the mark": "query_id iteration passage_id\nq1 0 p1\nq1 0 p2\nq2 0 p1\n",
    "a byte order mark and returns": "\ufeffquery_id,passage_id\r\nq1,p1\r\nq1,p2\r\nq2,p1\r\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_its_pairs(form, tmp_path):
    file = tmp_path / "pairs"
    file.write_bytes(FORMS[form].encode())
    assert read_excluded(file) == [("q1", "p1"), ("q1", "p2"), ("q2", "p1")]
    file.write_bytes(gzip.compress(FORMS[form].encode()))
    assert read_excluded(file) == [("q1", "p1"), ("q1", "p2"), ("q2", "p1")]


def test_a_table_of_pairs_needs_no_other_column(tmp_path):
    file = tmp_path / "pairs.parquet"
    pq.write_table(pa.table({"qid": [7, 7], "docno": ["a", "b"], "more": [0.5, 1]}), file)
    assert read_excluded(file) == [("7", "a"), ("7", "b")]


REFUSED = {
    "": "expected queries and the passages that they exclude",
    "one\n": "expected queries and the passages that they exclude",
    "q1 p1\nq2\n": "line 2: expected 2 columns as in the first line, found 1",
    "query_id,passage_id\n": "no pair of a query and a passage",
    "query_id,passage_id\nq1\n": "line 2: expected the 2 columns query_id, passage_id; found 1 in",
    'query_id,passage_id\n\nq1,"p\n1"\nq1\n': "line 5: expected the 2 columns",
    '[{"id": "q1", "query": "t", "excluded_ids": ["p1", "p2"]}]': (
        "object 1: a list in 'excluded_ids'; expected one query and one passage: write an object"
    ),
    '{"q1": ["p1"]}': "line 1: a list in 'q1'; expected one query and one passage",
    '{"query_id": "q1", "passage_id": ["p1"]}': "line 1: a list in 'passage_id'; expected one",
    '{"_id": "q1", "text": "t"}\n': 'line 1: expected a field "query_id"',
    '{"query_id": "q1", "passage_id": "p1"}\n{"query_id": "q1"}\n': (
        'line 2: expected a field "passage_id"'
    ),
    '{"query_id": "q1", "passage_id": "p1"\n': "not valid JSON",
    '["q1", "p1"]': "expected JSON objects or one array of them",
    '{"q1": {"p1": 0.5}}': "expected an integer grade, found 0.5",
    "query_id,passage_id\nq1,p 1\n": "row 1: white space or a control character in the passage id",
    'query_id,passage_id\nq1,"p1\n': "unexpected end of data",
    "query_id,passage_id\nq1,\n": "row 1: empty passage id",
    "q1 0 p1\nq2 Q0 p1\n": "the second of three columns is 0 or Q0 in every line",
    "# a note\n": "expected queries and the passages that they exclude",
    "q1 0 p1 much\n": "expected an integer grade",
}


@pytest.mark.parametrize("text", REFUSED)
def test_another_form_is_refused_with_its_place(text, tmp_path):
    file = tmp_path / "pairs"
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        read_excluded(file)
    assert REFUSED[text] in str(raised.value) and str(file) in str(raised.value)


IDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    pairs=st.lists(st.tuples(IDS, IDS), min_size=1),
    delimiter=st.sampled_from(",\t;"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_what_csv_writes_is_read_as_csv_reads_it(
    tmp_path_factory, pairs, delimiter, quoting, end, mark
):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows([("query-id", "corpus-id"), *pairs])
    file = tmp_path_factory.mktemp("pairs") / "pairs.csv"
    file.write_bytes((mark + text.getvalue()).encode())
    assert read_excluded(file) == list(dict.fromkeys(pairs))
