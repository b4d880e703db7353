"""The inputs of a rehearsal are written once."""

import gzip

import pytest

from raypipe.errors import InputError
from rehearsal.made import Size, make_inputs


@pytest.fixture
def like(tmp_path):
    file = tmp_path / "like.tsv.gz"
    file.write_bytes(gzip.compress(b"0\tthe lease of a shard\n1\tthe rank of the shard\n"))
    return file


@pytest.fixture
def queries(tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("".join(f"{number}\twhat is shard {number}\n" for number in range(9)))
    return file


SIZE = Size(passages=30, queries=4, eval_queries=2, seed=1)


def tree(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.slow
def test_passages_the_first_queries_judgements_and_models_are_written(tmp_path, like, queries):
    recipe = make_inputs(tmp_path / "r", like, queries, SIZE)
    assert recipe == tmp_path / "r" / "rehearsal.yaml"
    lines = {
        name: (tmp_path / "r" / "msmarco" / name).read_text().splitlines()
        for name in (
            "collection.tsv",
            "queries.dev.small.tsv",
            "qrels.dev.small.tsv",
            "queries.eval.small.tsv",
        )
    }
    assert [len(of_file) for of_file in lines.values()] == [30, 4, 4, 2]
    assert lines["queries.dev.small.tsv"] == [f"{n}\twhat is shard {n}" for n in range(4)]
    assert "eval" in recipe.read_text()


@pytest.mark.slow
def test_they_are_written_once_and_a_crash_before_the_end_starts_again(tmp_path, like, queries):
    make_inputs(tmp_path / "r", like, queries, SIZE)
    before = tree(tmp_path / "r")
    (tmp_path / "r" / "rehearsal.json").unlink()  # it is the last file
    (tmp_path / "r" / "msmarco" / "collection.tsv").write_text("torn")
    make_inputs(tmp_path / "r", like, queries, SIZE)
    assert tree(tmp_path / "r") == before
    file = tmp_path / "r" / "msmarco" / "collection.tsv"
    written = file.stat().st_mtime_ns
    make_inputs(tmp_path / "r", like, queries, SIZE)
    assert file.stat().st_mtime_ns == written


@pytest.mark.slow
@pytest.mark.parametrize(
    "other", [{"passages": 31}, {"queries": 5}, {"seed": 2}, {"eval_queries": 0}]
)
def test_a_folder_of_another_size_is_refused_with_both_values(tmp_path, like, queries, other):
    make_inputs(tmp_path / "r", like, queries, SIZE)
    changed = Size(**{**vars_of(SIZE), **other})
    ((key, value),) = other.items()
    with pytest.raises(InputError, match=f"{key}: found {vars_of(SIZE)[key]}, given {value}"):
        make_inputs(tmp_path / "r", like, queries, changed)


@pytest.mark.slow
def test_a_folder_of_other_words_is_refused(tmp_path, like, queries):
    make_inputs(tmp_path / "r", like, queries, SIZE)
    like.write_bytes(b"0\tother words\n")
    with pytest.raises(InputError, match="like: found .* given .*name another --out"):
        make_inputs(tmp_path / "r", like, queries, SIZE)


@pytest.mark.parametrize("line", [b"no tab\n", b"0\t\xff\n"])
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_written(tmp_path, like, queries, line):
    like.write_bytes(b"0\ta\n" + line)
    with pytest.raises(InputError, match="line 2"):
        make_inputs(tmp_path / "r", like, queries, SIZE)
    assert not (tmp_path / "r").exists()


def vars_of(size):
    return {name: getattr(size, name) for name in ("passages", "queries", "eval_queries", "seed")}
