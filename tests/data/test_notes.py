import pytest

from raypipe.storage.files import note_in


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, None), (b'{"a": 1}', {"a": 1}), (b'{"a": 1', None), (b"\xff\xfe\x00", None)],
)
def test_a_note_that_cannot_be_read_says_nothing(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "note.json").write_bytes(content)
    assert note_in(tmp_path / "note.json") == expected
