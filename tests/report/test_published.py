"""The published tables: complete, in range, and equal to what the papers print."""

import pytest

from raypipe.evaluation.names import parse_measures
from raypipe.report.published import TIME, cells, sources

PAPERS = {"monobert-2019": 16, "multistage-2019": 28, "repbert-2020": 103, "cip-2021": 18}
"""Source -> the number of its values."""


def value(source, table, row, column):
    return next(
        cell.value for cell in cells(source, table) if (cell.row, cell.column) == (row, column)
    )


@pytest.mark.parametrize("name", sources())
def test_every_value_is_a_share_of_a_known_measure_with_a_source(name):
    source = sources()[name]
    assert source.source and source.title and source.url.startswith("https://")
    of_source = [cell for table in source.tables for cell in cells(name, table.name)]
    assert len(of_source) == PAPERS.get(name, 18)
    for cell in of_source:
        assert cell.source == source.source and cell.table and cell.row
        assert cell.about.collection and cell.about.queries
        if cell.about.measure == TIME:
            assert 10 <= cell.value <= 5000
        else:
            parse_measures([cell.about.measure])
            assert 0.1 <= cell.value <= 0.99
    settings = [each for each in source.settings if each.values is not None]
    assert all(each.setting and each.values == sorted(each.values) for each in settings)


@pytest.mark.parametrize("name", sources())
def test_every_row_names_columns_of_its_table_and_every_column_has_a_value(name):
    for table in sources()[name].tables:
        named = {column for row in table.rows.values() for column in row}
        assert named == set(table.columns)
        assert all(
            set(inferred) <= set(table.rows[row]) for row, inferred in table.inferred.items()
        )


def test_a_value_is_the_one_that_the_source_prints():
    for source, table, row, column, expected in [
        ("monobert-2019", "Table 1", "BM25 (Lucene, no tuning)", "test", 0.123),
        ("monobert-2019", "Table 1", "BERT Large", "dev", 0.365),
        ("monobert-2019", "Table 1", "BERT Large", "test", 0.335),
        ("monobert-2019", "Table 1", "Conv-KNRM", "dev", 0.290),
        ("monobert-2019", "Table 1", "IRNet", "eval", 0.281),
        ("multistage-2019", "Table 1", "Anserini (BM25)", "dev", 0.187),
        ("multistage-2019", "Table 1", "+ monoBERT + duoBERT BINARY", "dev", 0.383),
        ("multistage-2019", "Table 1", "+ monoBERT + duoBERT SUM + TCP", "eval", 0.379),
        ("multistage-2019", "Table 2", "+ monoBERT", "test", 0.348),
        ("multistage-2019", "text, recall of the first stage", "Anserini (BM25)", "dev", 0.857),
        ("repbert-2020", "Table 1", "RepBERT", "recall", 0.943),
        ("repbert-2020", "Table 1", "BM25 + BERT Large", "ms/query", 3400),
        ("repbert-2020", "Table 2", "first 5", "docTTTTTquery", 0.314),
        ("repbert-2020", "Table 2", "first 1000", "RepBERT", 0.376),
        ("repbert-2020", "Table 3", "RepBERT", "docTTTTTquery", 0.315),
        ("repbert-2020", "Table 3", "BM25", "RepBERT", 0.245),
        ("repbert-2020", "Table 4", "docTTTTTquery", "doc2query", 0.942),
        ("cip-2021", "Tables 1 and 2", "CIP_run2", "nDCG@10", 0.6783),
        ("cip-2021", "Tables 1 and 2", "CIP_run3", "MRR", 0.9567),
        ("cip-2021", "Tables 1 and 2", "CIP_run1", "val 2", 0.3675),
        ("anserini", "regressions-beir-v1.0.0-nfcorpus.flat.md", "BM25", "nDCG@10", 0.3218),
        ("anserini", "regressions-dl21-passage.md", "+RM3", "MAP@100", 0.1666),
    ]:
        assert value(source, table, row, column) == pytest.approx(expected, abs=1e-12)


def test_columns_of_a_leaderboards_hidden_judgements_are_marked_and_no_others():
    found = {
        (name, table.name, column)
        for name, source in sources().items()
        for table in source.tables
        for column, about in table.columns.items()
        if about.board_only
    }
    assert found == {
        ("monobert-2019", "Table 1", "eval"),
        ("multistage-2019", "Table 1", "eval"),
        ("repbert-2020", "Table 1", "test"),
    }


def test_what_is_inferred_equals_the_pair_in_the_other_order():
    table = sources()["repbert-2020"].table("Table 4")
    assert table.inferred == {"DeepCT": ["BM25", "doc2query"]}
    for first, second in (("DeepCT", "BM25"), ("DeepCT", "doc2query")):
        assert table.rows[first][second] == table.rows[second][first]
        (cell,) = [
            cell
            for cell in cells("repbert-2020", "Table 4")
            if (cell.row, cell.column) == (first, second)
        ]
        assert cell.is_inferred


def test_the_figures_have_the_papers_settings():
    multistage = {
        (each.of, each.setting): each.values
        for each in sources()["multistage-2019"].settings
        if each.setting
    }
    assert multistage == {
        ("Figure 2", "k0"): [50, 100, 200, 500, 1000],
        ("Figure 3", "k1"): [0, 10, 20, 30, 40, 50],
        ("Figure 3", "m"): [10, 20, 30, 40],
        ("Figure 4", "k0"): [50, 100, 200, 500, 1000],
        ("Figure 4", "k1"): [10, 30, 50],
    }
    of_table_2 = [s for s in sources()["repbert-2020"].settings if s.of == "Table 2"]
    assert of_table_2[0].values == [5, 10, 50, 500, 1000]


def test_one_collection_of_a_table_is_its_columns_alone():
    rows = {cell.row for cell in cells("monobert-2019", "Table 1", "trec-car-2017")}
    assert "Co-PACRR" in rows and "KNRM" not in rows
    assert {c.column for c in cells("monobert-2019", "Table 1", "trec-car-2017")} == {"test"}
