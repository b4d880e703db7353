"""Formats, inputs and problems at their bounds."""

from raypipe.data import facts
from raypipe.data.facts import count_file
from raypipe.data.reading import Tally, read_records


def test_a_file_is_counted_with_a_checkpoint_every_100_000_records(tmp_path):
    assert facts.CHECKPOINT_RECORDS == 100_000
    path = tmp_path / "x.tsv"
    path.write_bytes(b"\n" * 100_001)
    found = count_file(path, format="msmarco-v1")
    assert (found.checkpoint_records, found.checkpoints) == (100_000, (0, 100_000))


def test_an_empty_range_reads_nothing_even_of_a_file_that_is_gone(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"1\ta\n2\t \n")
    counted = count_file(path, format="msmarco-v1")
    tally = Tally()
    given = {"format": "msmarco-v1", "facts": counted, "tally": tally}
    assert list(read_records(path, start=1, stop=2, **given)) == [("2", " ")]
    assert tally == Tally(num_replaced=0, num_blank=1)
    path.unlink()
    assert list(read_records(path, start=2, stop=2, **given)) == []
