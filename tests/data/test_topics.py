import pytest

from raypipe.data.queries import looks_like_topics, parse_topics, read_queries
from raypipe.errors import InputError

SGML = """
<top>

<num> Number: 301
<title> International Organized
   Crime

<desc> Description:
Identify organizations.
</top>
<top>
<num> Number: 302 </num>
<title>Topic: Poliomyelitis &amp; Post-Polio</title>
</top>
"""
XML = """<?xml version="1.0" encoding="UTF-8"?>
<topics task="COVID">
  <topic number="1"><query>coronavirus origin</query><question>what</question></topic>
  <topic id='2'>
    <query> weather </query>
  </topic>
</topics>
"""


def test_sgml_topics_have_their_number_and_title_with_or_without_end_tags():
    assert list(parse_topics(SGML)) == [
        (2, ("301", "International Organized Crime")),
        (11, ("302", "Poliomyelitis & Post-Polio")),
    ]


def test_xml_topics_have_their_attribute_and_their_query():
    assert list(parse_topics(XML)) == [(3, ("1", "coronavirus origin")), (4, ("2", "weather"))]


@pytest.mark.parametrize("content", [SGML, XML, "\ufeff" + SGML.lstrip()])
def test_a_queries_file_may_be_topics(tmp_path, content):
    (tmp_path / "topics.txt").write_text(content.lstrip("\n"))
    assert [query_id for query_id, _ in read_queries(tmp_path / "topics.txt")] in (
        ["301", "302"],
        ["1", "2"],
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("<top>\n<num> 1\n</top>\n", "line 1: a topic without a title"),
        ("<top>\n</top>\n<top>\n<title> x\n</top>\n", "line 1: a topic without a number"),
        ("<top>\n<num> 1 2\n<title> x\n</top>\n", "white space or a control character"),
        ("<top>\n<num> 1\n<title> x\n", "line 1: a topic without its end, </top>"),
        (
            "<top>\n<num> 1\n<title> x\n</top>\n<top>\n<num> 2\n<title> y\n",
            "line 5: a topic without its end, </top>; is the file cut off?",
        ),
        (
            "<top>\n<num> 1\n<title> x\n<top>\n<num> 2\n<title> y\n</top>\n",
            "line 1: a topic without its end, </top>",
        ),
        (
            '<topics>\n<topic number="1"><title>x</title></topic>\n<topic number="2"><title>y',
            "line 3: a topic without its end, </topic>",
        ),
        ("<top>\n<num> 1\n<title> caf\xe9\n</top>\n", "topics: not UTF-8 .'utf-8' codec"),
    ],
)
def test_a_topic_that_lacks_something_is_named_by_its_line(tmp_path, content, told):
    (tmp_path / "topics").write_text(content, "latin-1")
    with pytest.raises(InputError, match=told):
        read_queries(tmp_path / "topics")


def test_other_text_is_not_taken_for_topics():
    assert not looks_like_topics("1\t<b>bold</b>") and not looks_like_topics("<p> what")
    assert looks_like_topics("  <TOP>") and looks_like_topics("<?xml")
