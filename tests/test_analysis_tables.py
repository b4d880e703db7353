"""The tables of docs/analysis: of the right kinds, and without a word of the collections."""

import gzip
import json
import re
import subprocess
from itertools import chain
from pathlib import Path

import pytest
from packaged_recipes import EXPERIMENTS

from raypipe.config.load import recipe_names

FOLDER = Path(__file__).parent.parent / "docs" / "analysis"
TABLES = sorted(FOLDER.glob("*/*.json"))
KINDS = ("overview", "overview-of-documents", "depth", "tradeoff-of-duo", "fusion", "consistency")
WORDS_IN_A_ROW = 6


def sections(path):
    found = json.loads(path.read_text())
    return found.get("sections", [found])


def texts(value):
    """Every string in a JSON value, keys of mappings too."""
    if isinstance(value, dict):
        return [*value, *chain.from_iterable(map(texts, value.values()))]
    if isinstance(value, list):
        return [*chain.from_iterable(map(texts, value))]
    return [value] if isinstance(value, str) else []


def words(text):
    return re.findall(r"\w+", text.lower())


def test_there_is_a_folder_for_each_of_the_recipes_and_the_command_that_makes_them_is_a_shells():
    names = {path.parent.name for path in TABLES}
    assert names == {"medquad-cip", "car-test200", "msmarco-v2-dl21", "nfcorpus-reranked"}
    assert names <= {*recipe_names("pipeline"), *(path.stem for path in EXPERIMENTS)}
    subprocess.run(["bash", "-n", FOLDER / "make.sh"], check=True)


def test_a_table_is_of_a_kind_that_holds_no_text_of_queries_or_passages():
    for path in TABLES:
        assert path.name.split(".")[0] in KINDS
        for section in sections(path):
            columns = [*chain.from_iterable(table["columns"] for table in section["tables"])]
            assert not {"text", "query", "passage", "shared words", "grade"} & set(columns)
            assert any(re.fullmatch(r"[\d,]+ topics", note) for note in section["notes"]) or (
                section["name"] == "consistency"
            )
            assert not [text for text in texts(section) if "/" in text and text.startswith("/")]


def lines_of(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as file:
        return file.read()


@pytest.mark.long
def test_no_text_and_no_id_of_the_collections_is_in_a_table(raypipe_data):
    """Ids of five characters and more; a text is there if six of its words are, one by one."""
    told = {text for path in TABLES for text in texts(json.loads(path.read_text()))}
    tokens = {token for text in told for token in text.split() if len(token) >= 5}
    rows = {" ".join(words(text)) for text in told}
    runs = {
        " ".join(of_one[at : at + WORDS_IN_A_ROW])
        for of_one in map(words, told)
        for at in range(len(of_one) - WORDS_IN_A_ROW + 1)
    }
    checked = 0
    for folder in ("msmarco-v2-dl21", "trec-car-test200", "nfcorpus", "medquad-liveqa"):
        for path in sorted((raypipe_data / folder).glob("*.*")):
            if not re.search(r"(tsv|jsonl)(\.gz)?$", path.name):
                continue
            content = lines_of(path)
            checked += 1
            known = {line.split("\t")[0] for line in content.splitlines()}
            known |= set(re.findall(r'"(?:_id|id|docid)": *"([^"]+)"', content))
            assert not known & tokens, path
            if path.name.startswith("queries"):
                asked = {" ".join(words(line.split("\t")[-1])) for line in content.splitlines()}
                assert not asked & (rows - {""}), path
            of_file = words(content)
            found = {
                " ".join(of_file[at : at + WORDS_IN_A_ROW])
                for at in range(len(of_file) - WORDS_IN_A_ROW + 1)
            }
            assert not found & runs, path
    assert checked >= 8
