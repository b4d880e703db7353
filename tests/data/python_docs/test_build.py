"""The embedded collection: the same bytes, honest splits, neither trivial nor hopeless."""

import builtins
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from raypipe.data.python_docs import build
from raypipe.data.python_docs import source as python_docs_builtin
from raypipe.data.python_docs.build import (
    DocsDraft,
    PythonDocs,
    python_docs,
    sized,
    write_python_docs,
)
from raypipe.data.python_docs.source import builtin_sections
from raypipe.errors import InputError

REPOSITORY = Path(__file__).parents[3]


WRITE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from raypipe.data.python_docs.build import python_docs, write_python_docs
write_python_docs(Path(sys.argv[2]), python_docs())
"""


@pytest.fixture(scope="module")
def draft(docs_draft: DocsDraft) -> DocsDraft:
    return docs_draft


@pytest.fixture(scope="module")
def docs(standard_docs: PythonDocs) -> PythonDocs:
    return standard_docs


@pytest.fixture(scope="module")
def small(small_docs: PythonDocs) -> PythonDocs:
    return small_docs


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


@pytest.mark.slow
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


def test_what_a_library_does_to_builtins_changes_no_section() -> None:
    import builtins

    before = list(builtin_sections())
    assert any(section.name == "builtins.print" for section in before)
    original = builtins.print
    builtins.print = lambda *arguments, **options: original(*arguments, **options)
    try:
        assert list(builtin_sections()) == before
    finally:
        builtins.print = original


def folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.mark.slow
def test_a_bound_gives_the_collection_of_that_size(
    draft: DocsDraft, docs: PythonDocs, small: PythonDocs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "drafted", lambda: draft)
    assert python_docs(max_passages=300) == small and python_docs() == docs
    assert 240 <= len(small.passages) <= 300 and 5900 <= len(docs.passages) <= 6000
    assert 80 <= len(python_docs(max_passages=100).passages) <= 100, "the smallest bound"


def test_a_collection_of_packages_is_nearly_all_for_training(
    tmp_path: Path, draft: DocsDraft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "drafted", lambda: draft)
    functions = [
        f"def lease{n}():\n    'Hold{n} a{n} shard{n} of{n} the{n} run{n}.'\n" for n in range(200)
    ]
    (tmp_path / "zebra.py").write_text("\n".join(functions))
    found = python_docs(max_passages=100, packages=[tmp_path])
    assert len(found.passages) == len(found.queries["train"]) == 94


def test_files_are_tab_separated_and_trec(tmp_path: Path, small: PythonDocs) -> None:
    write_python_docs(tmp_path, small)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "collection.tsv",
        *(f"qrels.{split}.txt" for split in ("dev", "test-400", "test", "train")),
        *(f"queries.{split}.tsv" for split in ("dev", "test-400", "test", "train")),
    ]
    lines = (tmp_path / "collection.tsv").read_bytes().decode().split("\n")
    assert [tuple(line.split("\t")) for line in lines[:-1]] == small.passages
    assert lines[-1] == ""
    query_id, zero, passage_id, grade = (tmp_path / "qrels.test.txt").read_text().split()[:4]
    assert (query_id, passage_id, int(grade)) == small.qrels["test"][0]
    assert zero == "0"


def test_the_quickstart_ranks_400_test_queries_drawn_by_a_hash_of_its_own(tmp_path: Path) -> None:
    names = [f"n.say{number}" for number in range(500)]
    queries: dict[str, list[tuple[str, str]]] = {"train": [("m.go", "m go")], "dev": []}
    queries["test"] = [(name, f"words of {name}") for name in names]
    qrels: dict[str, list[tuple[str, str, int]]] = {"train": [("m.go", "m.go#1", 1)], "dev": []}
    qrels["test"] = [(name, f"{name}#{part}", 1) for name in names for part in (1, 2)]
    docs = PythonDocs(version="x", passages=[], queries=queries, qrels=qrels, facts={})
    write_python_docs(tmp_path, docs)
    keys = {name: hashlib.sha256(f"test-400 {name}".encode()).hexdigest() for name in names}
    largest = sorted(names, key=keys.__getitem__)[400:]
    expected = [name for name in names if name not in largest]
    drawn = (tmp_path / "queries.test-400.tsv").read_text()
    assert drawn == "".join(f"{name}\twords of {name}\n" for name in expected)
    judged = (tmp_path / "qrels.test-400.txt").read_text()
    assert judged == "".join(f"{name} 0 {name}#{part} 1\n" for name in expected for part in (1, 2))


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
    draft: DocsDraft, docs: PythonDocs, max_passages: int
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


def test_a_collection_of_a_draft_is_counted_and_written(tmp_path):
    names = ["m.go", "m.halt", "n.say"]
    draft = DocsDraft(
        passages={"m.go#1": "x y", "m.halt#1": "z", "n.say#1": "w"},
        relevant={name: [f"{name}#1"] for name in names},
        queries={"m.go": "m go", "n.say": "n say"},
        splits={"m.go": "train", "m.halt": "train", "n.say": "test"},
        facts={"sections": 9},
    )
    docs = sized(draft, max_passages=100)
    assert isinstance(docs, PythonDocs)
    assert docs.passages == [("m.go#1", "x y"), ("m.halt#1", "z"), ("n.say#1", "w")]
    assert docs.queries == {"train": [("m.go", "m go")], "dev": [], "test": [("n.say", "n say")]}
    assert docs.qrels["train"] == [("m.go", "m.go#1", 1)]
    assert docs.facts == {
        "sections": 9, "sections_chosen": 3, "passages": 3,
        "queries": {"train": 1, "dev": 0, "test": 1}, "qrels": {"train": 1, "dev": 0, "test": 1},
    }  # fmt: skip
    # 4 passages: 2 of train's (2.48), none of test's (0.92).
    assert [key for key, _ in sized(draft, max_passages=4).passages] == ["m.go#1", "m.halt#1"]
    equal = {"train": 0.25, "dev": 0.25, "test": 0.25}
    less = [key for key, _ in sized(draft, max_passages=4, shares=equal).passages]
    assert len(less) == 2 and less[1] == "n.say#1"
    write_python_docs(tmp_path / "a" / "b", docs)
    write_python_docs(tmp_path / "a" / "b", docs)
    files = {p.name: p.read_text() for p in (tmp_path / "a" / "b").iterdir()}
    assert files == {
        "collection.tsv": "m.go#1\tx y\nm.halt#1\tz\nn.say#1\tw\n",
        "queries.train.tsv": "m.go\tm go\n", "queries.dev.tsv": "",
        "queries.test.tsv": "n.say\tn say\n", "qrels.train.txt": "m.go 0 m.go#1 1\n",
        "qrels.dev.txt": "", "qrels.test.txt": "n.say 0 n.say#1 1\n",
        "queries.test-400.tsv": "n.say\tn say\n", "qrels.test-400.txt": "n.say 0 n.say#1 1\n",
    }  # fmt: skip


def test_builtin_sections_are_of_what_c_defined():
    found = {s.name: s for s in python_docs_builtin._sections()}
    assert found["math.gcd"].title == "math" and found["math.gcd"].heading == "gcd"
    assert {"builtins.dict.get", "array.array.append", "itertools.chain.from_iterable"} <= set(
        found
    )
    assert found["builtins.int.from_bytes"].text.startswith("Return the integer represented")
    names = [name.split(".") for name in found]
    assert not [name for name in names if name[1].startswith("_") or name[-1].startswith("_")]
    assert not {"math.pi", "builtins.True", "builtins.Ellipsis"} & set(found)
    assert list(found)[0].startswith("array.") and list(found)[-1].startswith("math.")
    kinds = [value for name, value in python_docs_builtin._objects(builtins) if "." not in name]
    assert len(kinds) > 100 and all(callable(kind) for kind in kinds)
    assert not any(s.text.startswith(" ") for s in found.values())


def test_sections_of_c_are_printed_as_json(capsys):
    python_docs_builtin.print_sections()
    rows = json.loads(capsys.readouterr().out)
    expected = [[s.name, s.title, s.heading, s.text] for s in python_docs_builtin._sections()]
    assert rows == expected and len(rows) > 300
