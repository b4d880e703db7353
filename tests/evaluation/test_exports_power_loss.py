"""Run files that were written are there when the machine is switched on again."""

import pyarrow as pa
import pytest
from lost_power import noting_disk

from raypipe import schema
from raypipe.evaluation.exports import write_msmarco, write_trec

RUN = pa.table([["q", "q"], ["a", "b"], [1, 2], [2.0, 1.0]], schema=schema.RUN_FILE)


@pytest.mark.fault(7, "4 run files, plain and packed, survive whole, older ones replaced too")
def test_written_runs_survive(tmp_path, monkeypatch):
    disk = noting_disk(tmp_path / "disk", monkeypatch)
    folder = disk.root / "runs" / "dev"
    for tag in ("first", "second"):
        write_trec(RUN, folder / "a.trec", tag=tag)
        write_trec(RUN, folder / "a.trec.gz", tag=tag)
        write_msmarco(RUN, folder / "a.tsv")
        write_msmarco(RUN, folder / "a.tsv.zst")
        after = disk.survivors(tmp_path / tag) / "runs" / "dev"
        written = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert {path.name: path.read_bytes() for path in after.iterdir()} == written
        assert len(written) == 4 and all(written.values())
