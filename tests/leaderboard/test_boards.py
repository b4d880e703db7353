from raypipe.leaderboard.boards import BOARDS


def test_boards_take_what_their_scripts_and_guidelines_say():
    passage, document = BOARDS["msmarco-passage"], BOARDS["msmarco-doc"]
    # MS MARCO passage: 8,841,823 passages, 6,980 dev and 6,837 eval queries, MRR@10 of 1,000 rows.
    assert (passage.num_passages, passage.cutoff, passage.depths[0][1]) == (8_841_823, 10, 1000)
    assert dict(passage.query_sets) == {"dev": 6980, "eval": 6837}
    # Documents: 5,193 dev and 5,793 eval queries, MRR@100 of 100 rows.
    assert (document.num_passages, document.cutoff, document.depths[0][1]) == (None, 100, 100)
    assert dict(document.query_sets) == {"dev": 5193, "eval": 5793}
    for board in (passage, document):
        assert board.full_rows and board.metadata and board.form == "msmarco"
    for name in ("trec-dl", "trec-car", "local"):
        board = BOARDS[name]
        assert not board.full_rows and not board.metadata and board.cutoff is None
        assert board.form == ("msmarco" if name == "local" else "trec")
    depths = {pattern.pattern: rows for pattern, rows in BOARDS["trec-dl"].depths}
    assert list(depths.values()) == [100, 1000, 1000] and depths["[0-9]+"] == 1000
    assert [rows for _, rows in BOARDS["trec-car"].depths] == [1000]
