"""The embedded collection: the same bytes, honest splits, neither trivial nor hopeless."""

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from raypipe.data.python_docs.build import (
    PythonDocs,
    python_docs,
    sized,
    write_python_docs,
)
from raypipe.data.python_docs.draft import Draft
from raypipe.errors import InputError

REPOSITORY = Path(__file__).parents[2]
WRITE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from raypipe.data.python_docs.build import python_docs, write_python_docs
write_python_docs(Path(sys.argv[2]), python_docs())
"""


@pytest.fixture(scope="module")
def draft(docs_draft: Draft) -> Draft:
    return docs_draft


@pytest.fixture(scope="module")
def docs(standard_docs: PythonDocs) -> PythonDocs:
    return standard_docs


@pytest.fixture(scope="module")
def small(small_docs: PythonDocs) -> PythonDocs:
    return small_docs


def terms(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def bm25(docs: PythonDocs, *, k1: float = 0.9, b: float = 0.4) -> Callable[[str], np.ndarray]:
    """Query -> a score for each passage; Robertson and Zaragoza 2009, equations 3.1 to 3.15."""
    rows: dict[str, list[int]] = {}
    lengths = np.zeros(len(docs.passages))
    for row, (_, text) in enumerate(docs.passages):
        found = terms(text)
        lengths[row] = len(found)
        for term in found:
            rows.setdefault(term, []).append(row)
    norms = k1 * (1 - b + b * lengths / lengths.mean())

    def score(query: str) -> np.ndarray:
        scores = np.zeros(len(lengths))
        for term in terms(query):
            held, counts = np.unique(rows.get(term, []), return_counts=True)
            held = held.astype(int)
            idf = np.log1p((len(lengths) - len(held) + 0.5) / (len(held) + 0.5))
            scores[held] += idf * counts / (counts + norms[held])
        return scores

    return score


def rr_at_10(docs: PythonDocs, split: str, score: Callable[[str], np.ndarray]) -> float:
    """Mean over the split's queries; ties by row; a passage without a score is not retrieved."""
    relevant: dict[str, set[str]] = {}
    for query_id, passage_id, _ in docs.qrels[split]:
        relevant.setdefault(query_id, set()).add(passage_id)
    total = 0.0
    for query_id, query in docs.queries[split]:
        scores = score(query)
        for rank, row in enumerate(np.argsort(-scores, kind="stable")[:10], start=1):
            if scores[row] > 0 and docs.passages[row][0] in relevant[query_id]:
                total += 1 / rank
                break
    return total / len(docs.queries[split])


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right)


def check_is_valid(docs: PythonDocs) -> None:
    """Unique ids without white space, texts on one line, every query with a relevant passage."""
    ids = [passage_id for passage_id, _ in docs.passages]
    query_ids = [query_id for rows in docs.queries.values() for query_id, _ in rows]
    texts = [text for rows in (docs.passages, *docs.queries.values()) for _, text in rows]
    assert len(set(ids)) == len(ids)
    assert len(set(query_ids)) == len(query_ids)
    assert not [each for each in ids + query_ids if re.search(r"\s", each)]
    assert not [text for text in texts if text != " ".join(text.split())]
    assert list(docs.queries) == list(docs.qrels) == ["train", "dev", "test"]
    for split, rows in docs.qrels.items():
        assert {query_id for query_id, _, _ in rows} == {each for each, _ in docs.queries[split]}
        assert {passage_id for _, passage_id, _ in rows} <= set(ids)
        assert {relevance for _, _, relevance in rows} == {1}
        assert len({row[:2] for row in rows}) == len(rows)


def test_same_bytes_from_processes_with_other_hash_seeds_folders_and_locales(
    tmp_path: Path, docs: PythonDocs
) -> None:
    digests = set()
    for seed, locale in (("1", "C"), ("31", "C.UTF-8")):
        home = tmp_path / seed
        home.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "HOME": str(home)}
        subprocess.run(
            [sys.executable, "-I" if seed == "1" else "-OO", "-c", WRITE, REPOSITORY, home / "x"],
            cwd=home,
            env=environment,
            check=True,
        )
        digests.add(folder_digest(home / "x"))
    write_python_docs(tmp_path / "here", docs)
    assert digests == {folder_digest(tmp_path / "here")}


def test_what_a_library_does_to_builtins_changes_no_byte(docs: PythonDocs) -> None:
    import builtins

    original = builtins.print
    builtins.print = lambda *arguments, **options: original(*arguments, **options)
    try:
        assert python_docs() == docs
    finally:
        builtins.print = original


def folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def test_a_bound_gives_the_collection_of_that_size(small: PythonDocs) -> None:
    assert python_docs(max_passages=300) == small
    assert 240 <= len(small.passages) <= 300


def test_files_are_tab_separated_and_trec(tmp_path: Path, small: PythonDocs) -> None:
    write_python_docs(tmp_path, small)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "collection.tsv",
        *(f"qrels.{split}.txt" for split in ("dev", "test", "train")),
        *(f"queries.{split}.tsv" for split in ("dev", "test", "train")),
    ]
    lines = (tmp_path / "collection.tsv").read_bytes().decode().split("\n")
    assert [tuple(line.split("\t")) for line in lines[:-1]] == small.passages
    assert lines[-1] == ""
    query_id, zero, passage_id, grade = (tmp_path / "qrels.test.txt").read_text().split()[:4]
    assert (query_id, passage_id, int(grade)) == small.qrels["test"][0]
    assert zero == "0"


def test_the_version_is_the_implementation_and_the_full_version(docs: PythonDocs) -> None:
    assert docs.version == f"{platform.python_implementation()} {platform.python_version()}"


def test_collection_is_valid_and_large_enough(docs: PythonDocs) -> None:
    check_is_valid(docs)
    assert 5000 <= len(docs.passages) <= 6000
    assert len(docs.queries["test"]) >= 200
    assert len(docs.queries["dev"]) >= 150
    assert len(docs.queries["train"]) >= 1000
    assert len({text for _, text in docs.passages}) == len(docs.passages)
    counts = {split: len(rows) for split, rows in docs.queries.items()}
    assert docs.facts["passages"] == len(docs.passages)
    assert docs.facts["queries"] == counts


def test_no_machine_shows_in_the_texts(docs: PythonDocs) -> None:
    found = [text for _, text in docs.passages if re.search(r"0x[0-9a-f]{7}|/(usr|home)/", text)]
    assert found == []


@pytest.mark.parametrize("max_passages", [100, 300, 1000])
def test_smaller_collections_are_valid_and_keep_whole_sections(
    draft: Draft, docs: PythonDocs, max_passages: int
) -> None:
    less = sized(draft, max_passages=max_passages)
    check_is_valid(less)
    assert max_passages * 0.8 <= len(less.passages) <= max_passages
    assert all(less.queries.values())
    modules = {passage_id.split(".")[0] for passage_id, _ in less.passages}
    assert len(modules) > max_passages / 20
    for split in less.qrels:
        both = {query_id for query_id, _ in less.queries[split]}
        rows = [row for row in docs.qrels[split] if row[0] in both]
        held = {row[0] for row in rows}
        assert rows == [row for row in less.qrels[split] if row[0] in held]


@pytest.mark.parametrize("max_passages", [-1, 0, 99])
def test_too_small_a_collection_is_refused(max_passages: int) -> None:
    with pytest.raises(InputError, match=f"at least 100, found {max_passages}"):
        python_docs(max_passages=max_passages)


def test_no_module_is_in_two_splits(docs: PythonDocs) -> None:
    modules = {
        split: {query_id.split(".")[0] for query_id, _ in rows}
        for split, rows in docs.queries.items()
    }
    judged = {split: {row[1] for row in rows} for split, rows in docs.qrels.items()}
    for groups in (modules, judged):
        assert not groups["train"] & groups["dev"]
        assert not groups["train"] & groups["test"]
        assert not groups["dev"] & groups["test"]


def test_no_query_has_a_near_duplicate_in_another_split(docs: PythonDocs) -> None:
    sets = {
        split: [frozenset(terms(text)) for _, text in rows] for split, rows in docs.queries.items()
    }
    for one, other in (("train", "test"), ("dev", "test"), ("train", "dev")):
        worst = max(jaccard(left, right) for left in sets[one][::3] for right in sets[other])
        assert worst < 0.6


def test_no_judged_passage_has_a_near_duplicate_in_another_split(docs: PythonDocs) -> None:
    texts = dict(docs.passages)
    sets = {
        split: [frozenset(terms(texts[each])) for each in sorted({row[1] for row in rows})]
        for split, rows in docs.qrels.items()
    }
    for one, other in (("train", "test"), ("dev", "test"), ("train", "dev")):
        worst = max(jaccard(left, right) for left in sets[one][::9] for right in sets[other])
        assert worst < 0.6


def test_every_query_has_two_words_and_is_asked_once(docs: PythonDocs) -> None:
    bags = [frozenset(text.split()) for rows in docs.queries.values() for _, text in rows]
    assert min(map(len, bags)) >= 2
    assert len(set(bags)) == len(bags)


def test_ranking_by_containment_of_the_query_fails(docs: PythonDocs) -> None:
    texts = [text.lower() for _, text in docs.passages]

    def score(query: str) -> np.ndarray:
        return np.array([query in text for text in texts], dtype=float)

    assert rr_at_10(docs, "test", score) < 0.1


def test_bm25_finds_some_but_not_all(docs: PythonDocs) -> None:
    assert 0.1 < rr_at_10(docs, "test", bm25(docs)) < 0.8


def test_bm25_finds_some_but_not_all_of_a_small_collection(small: PythonDocs) -> None:
    assert 0.1 < rr_at_10(small, "test", bm25(small)) < 0.8


def test_known_sections_of_the_documentation_are_found(draft: Draft) -> None:
    everything = sized(draft, max_passages=100_000)
    ids = {passage_id for passage_id, _ in everything.passages}
    assert {"heapq.heappush#1", "builtins.str.upper#1"} <= ids
    queries = {key: text for rows in everything.queries.values() for key, text in rows}
    assert queries["collections.OrderedDict.move_to_end"] == "collections ordered dict move to end"
    assert queries["builtins.str.upper"] == "builtins str upper"
    assert queries["topics.string-methods-str-center"] == "string methods str center"
    left_out = ("tkinter.", "idlelib.", "test.", "site.", "numpy.", "pytest.", "antigravity#")
    assert not [each for each in ids if each.startswith(left_out)]
