from pathlib import Path

from raypipe.data.facts import FileFacts, count_file
from raypipe.data.formats.registry import FORMATS, Format


def test_a_stream_has_facts_over_its_records_with_their_lengths(monkeypatch):
    import hashlib

    def passages(source, start, stop):
        return iter([("a", "\u00e9"), ("bc", "")][start:stop])

    monkeypatch.setitem(FORMATS, "mini", Format(name="mini", files=list, stream=passages))
    content = b"".join(
        len(part).to_bytes(8, "little") + part for part in (b"a", b"\xc3\xa9", b"bc", b"")
    )
    assert count_file(Path("x/mini"), format="mini", checkpoint_records=7) == FileFacts(
        name="x/mini", num_bytes=37, sha256=hashlib.sha256(content).hexdigest(),
        md5=hashlib.md5(content).hexdigest(), num_records=2, compressed=False,
        checkpoint_records=7, checkpoints=(), stretches=(),
    )  # fmt: skip
