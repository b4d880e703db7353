import numpy as np
import pytest

from raypipe.errors import InputError
from raypipe.training import examples as table
from raypipe.training.examples import Examples, distinct, pair_keys
from raypipe.training.guard import Dropped, Guard
from raypipe.training.judgements import triple_examples


def test_pairs_have_keys_in_the_order_of_query_then_passage():
    assert pair_keys(np.array([1]), np.array([3])).tolist() == [(1 << 32) + 3]
    assert pair_keys(np.array([0, 2], np.int32), np.array([2**31 - 1, 0])).tolist() == [
        2**31 - 1,
        1 << 33,
    ]


def test_distinct_values_and_pairs_are_sorted_whatever_is_held_at_once(monkeypatch):
    rows, second = np.array([5, 1, 5, 3, 1]), np.array([1, 2, 1, 0, 9])
    for at_once in (1, 2, 100):
        monkeypatch.setattr(table, "ROWS_AT_ONCE", at_once)
        assert distinct(rows).tolist() == [1, 3, 5]
        expected = [(1 << 32) + 2, (1 << 32) + 9, 3 << 32, (5 << 32) + 1]
        assert distinct(rows, second).tolist() == expected


def test_known_pairs_are_looked_up_elementwise():
    table = Examples(np.zeros(1, np.int32), np.zeros((1, 2), np.int32))
    assert (table.num_examples, table.num_passages) == (1, 2)
    asked = np.array([[0, 1], [1, 2]]), np.array([[3, 3], [4, 9]])
    assert not table.are_relevant(*asked).any()
    keys = np.sort(pair_keys(np.array([1, 0]), np.array([4, 3])))
    known = Examples(table.query_rows, table.passage_rows, relevant=keys)
    assert known.are_relevant(*asked).tolist() == [[True, False], [True, False]]


def test_triples_keep_their_order_and_lose_what_the_guard_refuses(tmp_path):
    path = tmp_path / "triples.tsv"
    path.write_text("q1\ta\tb\nq0\tb\tc\nq1\tc\ta\nq2\ta\tb\nq1\tb\td\n")
    rows = {"a": 0, "b": 1, "c": 2, "d": 3}

    def rows_of(ids):
        return np.array([rows.get(each, -1) for each in ids], np.int64)

    def read(text=None, *, refused=(), guard=None):
        if text is not None:
            path.write_text(text)
        dropped, beats = Dropped(), []
        queries = {"q0": 0, "q1": 1, "q2": 2}
        guard = guard or Guard()
        scratch = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
        scratch.mkdir()
        found = triple_examples(
            path, queries, rows_of, set(refused), guard, dropped, scratch, lambda: beats.append(1)
        )
        pairs = zip(found.query_rows.tolist(), found.passage_rows.tolist(), strict=True)
        return [(query, *passages) for query, passages in pairs], dropped

    whole = [(1, 0, 1), (0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 1, 3)]
    assert read()[0] == whole
    found, dropped = read(refused=[1])
    assert found == [whole[1], whole[3]] and dropped.triples == 3
    found, dropped = read(guard=Guard(left_out=frozenset("c"), shared=frozenset("b")))
    assert found == [whole[0], whole[3], whole[4]]
    assert (dropped.left_out_positive, dropped.left_out_negative) == (1, 1)
    assert dropped.shared_passages == 1
    for bad in ("q1\ta\n", "q9\ta\tb\n", "q1\tx\tb\n", "q1\ta\tx\n", ""):
        with pytest.raises(InputError):
            read(bad)
    path.write_bytes(b"q1\ta\tb\nq1\ta\t\xff\n")
    with pytest.raises(InputError, match="after line 0: not UTF-8: invalid start byte"):
        read()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            '["q0", "a", "b"]',
            "expected query id, .*; this is JSON: write a line for each pair",
        ),
        ('["q0", ["a", 3.2], ["b", 0.1]]', "found 5 columns; this is JSON: write a line for each"),
        ('{"qid": "q0", "pos": ["a"], "neg": ["b"]}', "found 6 columns; this is JSON"),
        ("qid\tpos_id\tneg_id", "; this line names the columns: remove it, and write them in this"),
        ("q0,a,b", "found 1 columns; this has commas: write a line for each pair"),
        ('"q0"\t"a"\t"b"', "is not in the queries, .*; remove the quotes"),
        ("q0 0 a 1", "found 4 columns; these are judgements: give them as train.NAME.qrels"),
        (
            "q0 Q0 a 1 2.5 tag",
            "found 6 columns; this is a run: give it as train.NAME.negatives.runs",
        ),
        ("q0\ta\tb\tc", "found 4 columns; repeat query and relevant id in a line for each further"),
        ("3.2\t0.1\tq0\ta\tb", "found 5 columns; a teacher's scores stand in front: write them as"),
        ("a long query\tone text\tother text", "; these are texts: give them as train.NAME.texts"),
        ("a\tq0\tb", "a is not in the queries, q0 is not in the collection; the query's id comes"),
        ("q0.0\ta.0\tb.0", "; remove the .0: pandas makes fractions of whole numbers where one is"),
        ("q0\ta\tx", "expected .* irrelevant passage id; x is not in the collection$"),
        ("", "found 0 columns; remove the empty line"),
    ],
)
def test_lines_that_are_no_triples_of_ids_are_refused_with_what_to_do(tmp_path, line, told):
    path = tmp_path / "triples"
    path.write_text(f"q0\ta\tb\n{line}\n")
    rows = {"a": 0, "b": 1, "c": 2}

    def rows_of(ids):
        return np.array([rows.get(each, -1) for each in ids], np.int64)

    with pytest.raises(InputError, match=f"triples: line 2: .*{told}"):
        triple_examples(path, {"q0": 0}, rows_of, set(), Guard(), Dropped(), tmp_path, lambda: None)
