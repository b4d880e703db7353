"""An index keeps its language, which makes the words of its queries too."""

import pytest
from zebra_texts import table

from raypipe.engines.lucene.index import analyzer_of, build_index, index_settings, language_of
from raypipe.engines.lucene.java import start_jvm
from raypipe.engines.lucene.search import LuceneSearcher
from raypipe.vocabulary import Language, words

pytestmark = pytest.mark.jvm


@pytest.mark.slow
def test_a_german_index_finds_another_form_of_a_word_and_an_english_one_would_not(tmp_path):
    texts = ["die Häuser am Fluss", "ein Pferd"]
    build_index(lambda: [table(texts)], tmp_path / "index", language="de")
    assert language_of(tmp_path / "index") == "de" and language_of(tmp_path) == "en"
    rows, _ = LuceneSearcher(tmp_path / "index").search("Haus", k1=0.9, b=0.4, depth=5)
    assert rows.tolist() == [0]
    lucene = start_jvm()
    analyze = lucene[0]("io.anserini.analysis.AnalyzerUtils").analyze
    both = {
        language: [
            list(analyze(analyzer_of(lucene, language), text)) for text in ("Häuser", "Haus")
        ]
        for language in ("en", "de")
    }
    assert both["de"][0] == both["de"][1] == ["haus"] and both["en"][0] != both["en"][1]


@pytest.mark.slow
def test_every_language_has_an_analyzer_and_only_other_languages_are_in_a_fingerprint():
    lucene = start_jvm()
    names = {
        language: analyzer_of(lucene, language).getClass().getName().split(".")[-1]
        for language in words(Language)
    }
    assert len(names) == 30
    assert (names["en"], names["fr"]) == ("DefaultEnglishAnalyzer", "FrenchAnalyzer")
    assert (names["zh"], names["yo"]) == ("CJKAnalyzer", "WhitespaceAnalyzer")
    assert "language" not in index_settings() and index_settings("fr")["language"] == "fr"


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ["häuser", "two", "street"]),
        ("de", ["haus", "the", "two", "street"]),
        ("yo", ["Häuser,", "the", "two-street"]),
        ("impacts", ["Häuser,", "the", "two-street"]),
    ],
)
def test_a_language_cuts_a_text_into_its_own_words(language, words):
    lucene = start_jvm()
    analyze = lucene[0]("io.anserini.analysis.AnalyzerUtils").analyze
    assert list(analyze(analyzer_of(lucene, language), "Häuser, the two-street")) == words
