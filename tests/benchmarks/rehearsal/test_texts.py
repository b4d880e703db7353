"""Made-up passages, queries and judgements."""

import numpy as np
import pytest

from rehearsal import texts as module
from rehearsal import words as words_module
from rehearsal.texts import (
    made_up_queries,
    write_judgements,
    write_passages,
    write_queries,
)
from rehearsal.words import words_like


@pytest.fixture
def words(monkeypatch):
    monkeypatch.setattr(words_module, "NUM_UNSEEN", 100)
    return words_like(["one two two three three three"])


def written(file, *arguments):
    write_passages(file, *arguments)
    return file.read_text().splitlines()


def test_passages_are_rows_and_words_of_the_distribution(words, tmp_path):
    lines = written(tmp_path / "c.tsv", words, 300, 1)
    ids, texts = zip(*(line.split("\t") for line in lines), strict=True)
    assert ids == tuple(map(str, range(300)))
    assert {word for text in texts for word in text.split(" ")} <= set(words.listed())


def test_lengths_have_the_mean_and_deviation_of_ms_marcos(words, tmp_path):
    lines = written(tmp_path / "c.tsv", words, 10_000, 1)
    lengths = [len(line.split("\t")[1].split()) for line in lines]
    assert np.mean(lengths) == pytest.approx(54.7, abs=0.7)
    assert np.std(lengths) == pytest.approx(21.0, abs=0.7)
    assert min(lengths) >= 5


def test_a_longer_file_begins_with_a_shorter_one_and_a_seed_makes_another(
    words, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "BLOCK", 64)
    short = written(tmp_path / "short.tsv", words, 100, 1)
    assert len(short) == 100
    assert written(tmp_path / "long.tsv", words, 200, 1)[:100] == short
    assert written(tmp_path / "other.tsv", words, 100, 2) != short
    assert short[0].split("\t")[1] != short[64].split("\t")[1]


def test_made_up_queries_have_ids_of_their_own_and_six_words(words):
    queries = made_up_queries(words, 20, 1)
    assert [query_id for query_id, _ in queries] == [str(2_000_000 + n) for n in range(20)]
    assert all(len(text.split()) == 6 for _, text in queries)
    assert made_up_queries(words, 20, 2) != queries


def test_queries_and_judgements_are_written_in_ms_marcos_form(tmp_path):
    queries = [("7", "what is\u2028this"), ("9", "b")]
    write_queries(tmp_path / "q.tsv", queries)
    assert (tmp_path / "q.tsv").read_bytes().decode() == "7\twhat is\u2028this\n9\tb\n"
    write_judgements(tmp_path / "qrels.tsv", queries, 50, 3)
    found = [line.split() for line in (tmp_path / "qrels.tsv").read_text().splitlines()]
    assert [(line[0], line[1], line[3]) for line in found] == [("7", "0", "1"), ("9", "0", "1")]
    assert all(0 <= int(line[2]) < 50 for line in found)
