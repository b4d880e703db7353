"""A negative never has the text of a passage that is relevant for a query of its query's text."""

import numpy as np
import pytest
from given_stores import Stores
from hypothesis import given, settings
from hypothesis import strategies as st
from training_texts import Texts, keys, wanted

from raypipe import schema
from raypipe.config.training import TrainDocuments
from raypipe.stages.documents.passage_map import MapStage
from raypipe.stages.ids import TextHashes, ids_stage
from raypipe.training.batch import ExampleSource, read_batch
from raypipe.training.examples import Examples, RelevantTexts, map_examples
from raypipe.training.examples_stage import ExamplesStage, OfDocuments, query_copies
from raypipe.training.guard import Guard, lines_about

PASSAGES = ["oil", "oil", "tar", "wax", "Oil", "tar", "zinc"]
QUERIES = ["what burns", " What  burns", "what melts"]
QRELS = {"q0": "p0", "q1": "p2", "q2": "p3"}
FREE = {0: {3, 4, 6}, 1: {3, 4, 6}, 2: {0, 1, 2, 4, 5, 6}}
"""The passages that may be a query's negatives, by hand; "Oil" is another text than "oil"."""


@pytest.fixture
def stores(tmp_path):
    return Stores(tmp_path)


def made(stores, tmp_path, *, qrels=QRELS, collection=None, run=None, seed=0, **changed):
    """The examples of a set, and their facts."""
    if qrels is not None:
        lines = "".join(f"{query} 0 {passage} 1\n" for query, passage in qrels.items())
        (tmp_path / "qrels.txt").write_text(lines)
    passages = collection or stores.passages(PASSAGES)
    of_set = {key: changed.pop(key) for key in ("negatives", "pairs", "triples", "documents")
              if key in changed}  # fmt: skip
    given_by = wanted(qrels=qrels and str(tmp_path / "qrels.txt"), **of_set)
    if "negatives" not in of_set:
        given_by = given_by.model_copy(update={"negatives": None})
    ranked = changed.pop("ranked", range(len(PASSAGES)))
    lines = [(q, p, 9.0 - n) for q in range(len(QUERIES)) for n, p in enumerate(ranked)]
    runs = () if "triples" in of_set else (stores.run(lines),)
    ids = changed.pop("ids", None) or stores.hashes(passages)
    changed["documents"] = changed.pop("of_documents", None)
    given_fields = {"teacher": None, "teacher_last": None, "guard": Guard(), **changed}
    stage = ExamplesStage(
        wanted=given_by, collection=passages, ids=ids, queries=stores.queries(*QUERIES),
        runs=runs, seed=seed, **given_fields,
    )  # fmt: skip
    stored = stores.finished(stage)
    (record,) = stored.manifest.records
    return map_examples(stored.path(record)), record.facts


def by_query(examples, columns=slice(1, None)):
    rows = {}
    for query, passages in zip(examples.query_rows.tolist(), examples.passage_rows, strict=True):
        rows.setdefault(query, set()).update(passages[columns].tolist())
    return rows


@pytest.mark.parametrize("taught", [False, True])
def test_negatives_are_drawn_from_other_texts_alone_and_copies_in_the_window_are_counted(
    stores, tmp_path, taught
):
    window = {"first": 1, "last": 9, "examples": 3}
    teacher = None
    if taught:
        teacher = stores.run([(q, p, 1.0) for q in range(3) for p in range(7)])
    found, facts = made(stores, tmp_path, negatives={**window, "per_example": 1}, teacher=teacher)
    assert by_query(found)[0] == FREE[0] and by_query(found)[1] == FREE[1]
    assert by_query(found)[2] <= FREE[2]
    assert facts["short"]["copies"] == 6  # of q0 the passages 1, 2 and 5, of q1 0, 1 and 5
    assert "6 negatives with the text of a passage that is relevant" in lines_about("c", facts)[0]
    _, facts = made(stores, tmp_path, negatives={"first": 2, "last": 5, "per_example": 2})
    assert facts["short"]["copies"] == 3  # ranks 2 to 5 are the passages 1 to 4
    _, facts = made(stores, tmp_path, qrels={"q2": "p3"}, negatives={"first": 1, "per_example": 2})
    assert facts["short"]["copies"] == 0  # other queries have nothing to learn


def test_copies_among_labelled_candidates_are_neither_relevant_nor_irrelevant(stores, tmp_path):
    pairs = {"runs": ["first"], "last": 9}
    found, facts = made(stores, tmp_path, pairs=pairs)
    labels = {(q, p): label for q, p, label in zip(
        found.query_rows.tolist(), found.passage_rows[:, 0].tolist(), found.labels[:, 0].tolist(),
        strict=True)}  # fmt: skip
    own = {(0, 0), (1, 2), (2, 3)}
    free = {(query, passage) for query, passages in FREE.items() for passage in passages}
    assert labels == {pair: float(pair in own) for pair in own | free}
    assert facts["short"]["copies"] == 6
    assert made(stores, tmp_path, pairs={**pairs, "last": 2})[1]["short"]["copies"] == 3
    # A query without a judgement of its own is learnt too, and has those of its text.
    found, facts = made(stores, tmp_path, qrels={"q1": "p2"}, pairs=pairs)
    assert by_query(found, slice(None))[0] == {0, 1, 3, 4, 6} and facts["short"]["copies"] == 3
    refused = Guard(queries=("what burns",))
    found, facts = made(stores, tmp_path, pairs=pairs, guard=refused)
    assert set(by_query(found)) == {2} and facts["short"]["copies"] == 0


@pytest.mark.parametrize(("ending", "own"), [("what burns", {0, 3}), ("something else", set())])
def test_a_query_that_is_a_passage_is_never_its_own_negative_nor_is_a_copy(
    stores, tmp_path, ending, own
):
    """Passages have titles in front; where no text is a query's, equal ids are an accident."""
    texts = [f"A title {ending}", "burns well", "zinc", f"A title {ending}", "wax"]
    tables = [["q0", "p1", "q2", "p3", "p4"], texts]
    passages = stores.tables(schema.PASSAGES, tables)
    qrels = {"q0": "p1", "q2": "p4"}
    given_by = {"qrels": qrels, "collection": passages, "ranked": range(5)}
    window = {"first": 1, "per_example": 1, "examples": 4}
    found, facts = made(stores, tmp_path, negatives=window, **given_by)
    assert not by_query(found)[0] & own and (not own or 2 not in by_query(found)[2])
    assert facts["short"]["copies"] == (3 if own else 0)  # of q0 the passages 0 and 3, of q2 2
    found, _ = made(stores, tmp_path, pairs={"runs": ["first"], "last": 9}, **given_by)
    drawn = by_query(found, slice(None))
    assert drawn[0] == {0, 1, 2, 3, 4} - own
    assert drawn[2] == ({0, 1, 3, 4} if own else {0, 1, 2, 3, 4})


TRIPLES = [(0, 0, 1), (0, 0, 2), (0, 0, 6), (1, 2, 0), (1, 2, 3), (2, 3, 0), (2, 4, 3), (2, 1, 6)]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_given_triples_lose_those_whose_negative_is_relevant_by_its_text(
    stores, tmp_path, monkeypatch, at_once
):
    monkeypatch.setattr("raypipe.training.judgements.ROWS_AT_ONCE", at_once)
    file = tmp_path / "triples.tsv"
    file.write_text("".join(f"q{q}\tp{a}\tp{b}\n" for q, a, b in TRIPLES))
    given_by = {"triples": str(file), "in_batch": True}
    found, facts = made(stores, tmp_path, qrels=None, **given_by)
    rest = [2, 4, 7]  # p1 is relevant for q2 in the last triple, so p0 is no negative above
    triples = zip(found.query_rows.tolist(), found.passage_rows.tolist(), strict=True)
    assert [(q, *pair) for q, pair in triples] == [TRIPLES[n] for n in rest]
    assert facts["short"]["copies"] == 5
    pairs = np.array([0, 0, 1, 2]), np.array([1, 2, 0, 2])
    assert found.are_relevant(*pairs).tolist() == [True, True, True, False]
    found, facts = made(stores, tmp_path, qrels={"q1": "p6"}, **given_by)
    assert found.passage_rows.tolist() == [[2, 3], [1, 6]] and facts["short"]["copies"] == 6
    found, _ = made(stores, tmp_path, qrels=None, triples=str(file))
    assert found.relevant is None and found.passage_copies is None


def test_passages_of_irrelevant_documents_lose_texts_of_relevant_ones(stores, tmp_path):
    homes = [("d0", "(0,1)"), ("d1", "(0,1)"), ("d2", "(0,1)"), ("d0", "(2,3)"), ("d3", "(2,3)"),
             ("d3", "(0,1)"), ("d1", "(2,3)")]  # fmt: skip
    of_passages = stores.hashes(stores.passages(PASSAGES))
    columns = [list(column) for column in zip(*homes, strict=True)]
    ids = [f"p{n}" for n in range(len(homes))]
    by_name = {"passage_id": ids, "document_id": columns[0], "spans": columns[1]}
    table = [by_name[name] for name in schema.HOMES.names]
    home_map = stores.finished(MapStage(stores.tables(schema.HOMES, table), True))
    documents = stores.tables(schema.PASSAGES, [[f"d{n}" for n in range(4)], list("abcd")])
    negatives = set()
    for seed in range(12):
        found, facts = made(
            stores, tmp_path, qrels={"q0": "d0", "q1": "d2"}, collection=documents, seed=seed,
            ids=stores.finished(ids_stage(documents)), ranked=range(4),
            negatives={"first": 1, "per_example": 1},
            documents=TrainDocuments(), of_documents=OfDocuments(home_map, of_passages, None),
        )  # fmt: skip
        assert set(found.query_rows.tolist()) == {0, 1}
        negatives |= set(found.passage_rows[:, 1].tolist())
        # Of q0 the document d2 and the passages 1 and 5, of q1 the document d0 and the same two.
        assert facts["short"]["copies"] == 6
    assert negatives == {4, 6}


def test_a_copy_is_relevant_in_a_batch_for_every_query_of_the_text():
    table = Examples(
        np.array([0, 1, 2], np.int32), np.array([[0, 3], [2, 1], [3, 0]], np.int32),
        relevant=keys((0, 0), (0, 2), (2, 3)), query_copies=np.array([[1], [0]]),
        passage_copies=np.array([[1, 5], [0, 2]]),
    )  # fmt: skip
    source = ExampleSource(table, Texts(0, [1, 2, 3]), Texts(100, [2, 1, 5, 4]))
    batch = read_batch([source], np.array([0, 1, 2]))
    assert batch.positive.tolist() == [
        [True, False, True, True, False, True],  # passages 0, 3, 2, 1, 3, 0
        [True, False, True, True, False, True],
        [False, True, False, False, True, False],
    ]


def test_sources_with_the_same_texts_share_what_is_relevant_in_a_batch():
    """Row r has other pieces than any other row; both sources read the same two files."""
    queries, passages = Texts(0, [1, 2]), Texts(100, [2, 1, 0, 4])
    one = Examples(np.array([0], np.int32), np.array([[0, 1]], np.int32), relevant=keys((0, 0)))
    two = Examples(np.array([0, 1], np.int32), np.array([[3, 2], [1, 0]], np.int32))
    batch = read_batch(
        [ExampleSource(one, queries, passages), ExampleSource(two, queries, passages)],
        np.array([0, 1, 2]),
    )
    assert batch.positive.tolist() == [
        [True, False, True, False, False, True],  # passages 0, 1, 3, 2, 1, 0
        [True, False, True, False, False, True],
        [False, True, False, False, True, False],
    ]


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["", "a", "b", "A", " a", "a b", "a  b"]), max_size=9))
def test_copies_are_all_rows_but_the_first_of_each_text(tmp_path_factory, texts):
    firsts = [texts.index(text) for text in texts]
    stores = Stores(tmp_path_factory.mktemp("copies"))
    copies = TextHashes(stores.hashes(stores.passages(texts))).copies()
    assert copies.tolist() == [
        [row for row, first in enumerate(firsts) if first != row],
        [first for row, first in enumerate(firsts) if first != row],
    ]
    same = [[" ".join(t.lower().split()) for t in texts].index(" ".join(text.lower().split()))
            for text in texts]  # fmt: skip
    pairs = [(row, first) for row, first in enumerate(same) if first != row]
    assert query_copies(texts).T.tolist() == [list(pair) for pair in pairs]


def test_texts_that_agree_in_half_of_their_hashes_are_no_copies():
    hashes = object.__new__(TextHashes)
    hashes.hashes = np.array([[7, 1], [7, 2], [5, 1], [7, 1], [7, 2], [7, 3]], np.uint64)
    order = np.argsort(hashes.hashes[:, 0], kind="stable")
    hashes._sorted, hashes._rows = hashes.hashes[order, 0], order.astype(np.uint32)
    assert hashes.copies().tolist() == [[3, 4], [0, 1]]


ROWS = st.integers(0, 5)


@given(
    st.lists(ROWS, min_size=6, max_size=6), st.lists(ROWS, min_size=6, max_size=6),
    st.sets(st.tuples(ROWS, ROWS)),
)  # fmt: skip
def test_a_pair_is_relevant_if_any_pair_of_its_texts_is(query_texts, passage_texts, relevant):
    def copies(texts):
        pairs = [(row, texts.index(text)) for row, text in enumerate(texts)]
        return np.array([pair for pair in pairs if pair[0] != pair[1]], np.int64).reshape(-1, 2).T

    texts = RelevantTexts.of(keys(*relevant) if relevant else np.empty(0, np.int64),
                             copies(query_texts), copies(passage_texts))  # fmt: skip
    by_text = {(query_texts[query], passage_texts[passage]) for query, passage in relevant}
    rows = np.arange(6)
    assert texts.include(rows[:, None], rows[None, :]).tolist() == [
        [(query, passage) in by_text for passage in passage_texts] for query in query_texts
    ]


def test_relevant_passages_without_text_are_counted_and_told(stores, tmp_path):
    empty = stores.passages(["", "oil", "", "wax", "tar", "zinc", "lead"])
    window = {"negatives": {"first": 1, "per_example": 1}}
    _, facts = made(stores, tmp_path, collection=empty, **window)  # p0 and p2 of three
    assert facts["relevant_without_text"] == 2
    assert "train: c: 2 passages without text are learnt as relevant" in lines_about("c", facts)
    _, facts = made(stores, tmp_path, collection=empty, qrels={"q0": "p1"}, **window)
    assert "relevant_without_text" not in facts
