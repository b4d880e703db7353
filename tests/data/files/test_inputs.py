import pytest

from raypipe.data.formats.registry import FORMATS
from raypipe.data.records import Problems
from raypipe.errors import InputError


def make(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def test_parts_are_read_in_natural_order(tmp_path):
    names = [f"msmarco_passage_{n}.gz" for n in (10, 2, 1, 0)]
    folder = make(tmp_path, *names, "README", ".hidden.json", "msmarco_passage_0.gz.md5")
    found = FORMATS["msmarco-v2"].files([folder])
    assert [path.name for path in found] == [f"msmarco_passage_{n}.gz" for n in (0, 1, 2, 10)]
    assert FORMATS["msmarco-v2"].files(found[::-1]) == found


def test_order_depends_on_names_not_on_where_the_folders_are(tmp_path):
    b = make(tmp_path / "b", "part_1.jsonl")
    a = make(tmp_path / "a", "part_2.jsonl")
    assert [path.name for path in FORMATS["pyserini"].files([a, b])] == [
        "part_1.jsonl",
        "part_2.jsonl",
    ]


def test_a_folder_gives_the_collection_and_not_the_queries(tmp_path):
    names = ("collection.tsv.gz", "queries.dev.tsv", "qrels.dev.tsv")
    folder = make(tmp_path / "v1", *names)
    assert FORMATS["msmarco-v1"].files([folder]) == [folder / "collection.tsv.gz"]
    folder = make(tmp_path / "beir", "corpus.jsonl.gz", "queries.jsonl.gz")
    assert FORMATS["beir"].files([folder]) == [folder / "corpus.jsonl.gz"]


def test_a_file_named_is_taken_whatever_its_name(tmp_path):
    path = make(tmp_path, "anything") / "anything"
    for read_files in (
        FORMATS["msmarco-v1"].files,
        FORMATS["msmarco-v2"].files,
        FORMATS["beir"].files,
        FORMATS["pyserini"].files,
    ):
        assert read_files([path]) == [path]


def test_the_same_content_under_two_names_is_refused(tmp_path):
    folder = make(tmp_path, "corpus.jsonl", "corpus.jsonl.gz")
    with pytest.raises(InputError, match="the same file as"):
        FORMATS["beir"].files([folder])
    with pytest.raises(InputError, match="the same file as"):
        FORMATS["beir"].files([folder / "corpus.jsonl", folder / "." / "corpus.jsonl"])


def test_every_problem_with_the_inputs_is_listed(tmp_path):
    make(tmp_path / "empty")
    archive = make(tmp_path, "collectionandqueries.tar.gz") / "collectionandqueries.tar.gz"
    with pytest.raises(InputError) as caught:
        FORMATS["msmarco-v1"].files([tmp_path / "none.tsv", tmp_path / "empty", archive])
    causes = ("no such file", "no file of this format", "an archive; unpack it")
    assert len(caught.value.problems) == 3
    assert all(c in problem for c, problem in zip(causes, caught.value.problems, strict=True))
    with pytest.raises(InputError, match="no input named"):
        FORMATS["msmarco-v1"].files([])


@pytest.mark.parametrize("num", [0, 1, 9, 10, 11, 1_012])
def test_ten_problems_are_shown_and_the_rest_counted(num):
    problems = Problems()
    for number in range(num):
        problems.add(f"p{number}")
    assert problems.num_problems == num
    if not num:
        problems.raise_if_any()
        return
    with pytest.raises(InputError) as caught:
        problems.raise_if_any()
    more = {11: ["and 1 more problems"], 1_012: ["and 1,002 more problems"]}.get(num, [])
    assert caught.value.problems == [f"p{number}" for number in range(min(num, 10))] + more
