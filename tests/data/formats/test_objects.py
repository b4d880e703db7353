import pytest

from raypipe.data.formats.registry import FORMATS

parse = FORMATS["jsonl"].parse


@pytest.mark.parametrize(
    ("line", "passage"),
    [
        (b'{"docno": "d1", "text": "a"}', ("d1", "a")),
        (b'{"doc_id": 7, "title": "t", "body": "a", "url": []}', ("7", "t a")),
        (b'{"_id": "d1", "title": null, "contents": "a"}', ("d1", "a")),
        (b'{"docid": 3, "docno": "d1", "passage": "a", "title": ""}', ("d1", "a")),
        (b'{"docid": "d1#0", "headings": "h", "segment": "a"}', ("d1#0", "h a")),
        (b'{"docid": "d", "title": "t", "headings": "h\\nk", "body": "t b"}', ("d", "t h\nk t b")),
    ],
)
def test_an_object_may_have_any_name_of_the_field(line, passage):
    assert parse(line) == passage


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"text": "a"}', 'expected a field "passage_id" or "docno" or'),
        (b'{"id": "1"}', 'expected a field "text" or "contents" or'),
        (b'{"id": "1", "text": 5}', 'expected a string in "text"'),
        (b'{"id": "a b", "text": "a"}', "white space or a control character in the id"),
    ],
)
def test_an_object_that_lacks_one_is_refused(line, told):
    with pytest.raises(ValueError) as caught:
        parse(line)
    assert told in str(caught.value)
