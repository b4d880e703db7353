import pyarrow as pa
import pytest

from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "run"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_run(path)

    return read


def problems(read, content):
    with pytest.raises(InputError) as caught:
        read(content)
    return caught.value.problems


def test_the_order_of_a_long_unordered_file_is_that_of_the_file(read):
    """More lines than a sort that is not stable keeps in place."""
    rows = [(n * 7 % 5, n) for n in range(400)]
    found = read("".join(f"{query}\tp{n}\tquery\ttext\n" for query, n in rows))
    for query in range(5):
        own = found.filter(pa.compute.equal(found["query_id"], str(query)))
        assert own["passage_id"].to_pylist() == [f"p{n}" for q, n in rows if q == query]


def test_ten_problems_of_a_kind_are_shown_and_eleven_are_ten_and_one_more(read):
    for count in (10, 11, 13):
        bad = "query_id\tpassage_id\trank\n" + "".join(f"1\tp{n}\t0\n" for n in range(count))
        found = [p for p in problems(read, bad) if "expected a rank from 1" in p]
        assert len(found) == 10
        rest = [p for p in problems(read, bad) if "more like these" in p]
        # The equal ranks 0 of one query are ties too: one fewer than there are lines.
        counts = [int(p.split(": ")[1].split()[0]) for p in rest]
        assert counts == {10: [], 11: [1], 13: [3, 2]}[count]
        nan = "".join(f"1 Q0 p{n} {n} nan x\n" for n in range(count))
        found = problems(read, nan)
        assert len(found) == min(count, 11)
        short = "".join(f"1 Q0 p{n}\n" for n in range(count))
        found = problems(read, "1 Q0 p 1 1 x\n" + short)
        assert len(found) == min(count, 11)
        if count > 10:
            assert found[-1].endswith(f"{count - 10} more lines like these")


@pytest.mark.parametrize("line", ["1 Q0 p{0} {0} -{0} t", "1\tp{0}\t{0}", "1\tp{0}\t{0}\t-{0}"])
def test_lines_that_end_with_returns_alone_are_refused(read, line):
    rows = [line.format(number) for number in (1, 2, 3)]
    (told,) = problems(read, "\r".join(rows) + "\r")
    assert "no line feed in the file, whose lines seem to end with returns" in told
    assert len(read("\r\n".join(rows))) == len(read("\n".join(rows) + "\n\r")) == 3
