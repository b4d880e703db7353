"""Lucene's analyzers by language, as Anserini chooses them for indexing and for searching."""

from pathlib import Path
from typing import Any

from raypipe.engines.lucene.java import Lucene

ENGLISH = "en"
FILE = "raypipe-language.txt"
"""In the folder of an index that is not English: the language."""
_BLANKS = ("ha", "so", "sw", "yo")
"""Languages that Anserini cuts at blanks, without an analyzer of their own."""


def analyzer_of(lucene: Lucene, language: str) -> Any:
    """The analyzer of a language, one of `vocabulary.Language`."""
    autoclass, _ = lucene
    if language == ENGLISH:
        return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    if language in _BLANKS:
        return autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    return autoclass("io.anserini.analysis.AnalyzerMap").getLanguageSpecificAnalyzer(language)


def language_of(folder: Path) -> str:
    """The language of an index."""
    path = folder / FILE
    return path.read_text() if path.exists() else ENGLISH
