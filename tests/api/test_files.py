import gzip

import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe import schema
from raypipe.errors import InputError

RUN = pa.table(
    [["q", "q", "r"], ["b", "a", "a"], [1, 2, 1], [0.1, 0.1, 3.0]], schema=schema.RUN_FILE
)


def test_a_parquet_file_keeps_the_run(tmp_path):
    raypipe.write_run(RUN, tmp_path / "run.parquet")
    assert raypipe.read_run(tmp_path / "run.parquet").equals(RUN)


@pytest.mark.parametrize("name", ["a.trec", "a.run", "a.txt", "a.trec.gz", "a.run.zst"])
def test_a_trec_file_has_strictly_falling_scores(tmp_path, name):
    raypipe.write_run(RUN, str(tmp_path / name), tag="mine")
    found = raypipe.read_run(tmp_path / name)
    assert found["passage_id"].to_pylist() == ["b", "a", "a"]
    high, low, _ = found["score"].to_numpy()
    assert high == np.float32(0.1) and low == np.nextafter(high, np.float32(0))
    if name == "a.trec.gz":
        text = gzip.decompress((tmp_path / name).read_bytes()).decode()
        assert text.splitlines()[0] == "q Q0 b 1 0.100000001 mine"


def test_an_msmarco_file_has_ranks_alone(tmp_path):
    raypipe.write_run(RUN, tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == "q\tb\t1\nq\ta\t2\nr\ta\t1\n"
    assert raypipe.read_run(tmp_path / "a.tsv")["score"].to_pylist() == [1.0, 0.5, 1.0]


def test_a_written_run_is_the_pipelines_file(made, tmp_path):
    for name, run in made.runs["test"].items():
        raypipe.write_run(run, tmp_path / f"{name}.trec", tag=name)
        raypipe.write_run(run, tmp_path / f"{name}.tsv")
        for ending in ("trec", "tsv"):
            file = made.folder / "runs" / "test" / f"{name}.{ending}"
            assert (tmp_path / f"{name}.{ending}").read_bytes() == file.read_bytes()


def test_a_form_stands_above_the_name(tmp_path):
    raypipe.write_run(RUN, tmp_path / "a.trec", form="msmarco")
    assert (tmp_path / "a.trec").read_text().startswith("q\tb\t1\n")
    raypipe.write_run({"q": {"a": 1.0}}, tmp_path / "b", form="parquet")
    assert raypipe.read_run(tmp_path / "b").num_rows == 1


def test_a_bad_name_form_tag_or_id_is_refused_and_nothing_is_written(tmp_path):
    for path, more, told in (
        ("run.csv", {}, "expected a name that ends in .trec, .run"),
        ("run", {}, 'or form="trec", "msmarco" or "parquet"'),
        ("run.parquet.gz", {}, "expected a name that ends in"),
        ("run.trec", {"form": "csv"}, "form: expected trec, msmarco or parquet; found 'csv'"),
        ("run.trec", {"tag": "two words"}, "tag: expected one word"),
    ):
        with pytest.raises(InputError) as refused:
            raypipe.write_run(RUN, tmp_path / path, **more)
        assert told in str(refused.value)
    blank = pa.table([["q q"], ["a"], [1], [1.0]], schema=schema.RUN_FILE)
    with pytest.raises(InputError, match="white space or a control character"):
        raypipe.write_run(blank, tmp_path / "run.tsv")
    assert list(tmp_path.iterdir()) == []
