import re
import time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.data.queries import parse_topics, read_queries
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
<title>Topic: Poliomyelitis & Post-Polio</title>
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
    assert parse_topics(SGML.encode()) == [
        (2, ("301", "International Organized Crime")),
        (11, ("302", "Poliomyelitis & Post-Polio")),
    ]


def test_xml_topics_have_their_attribute_and_their_query():
    assert parse_topics(XML.encode()) == [(3, ("1", "coronavirus origin")), (4, ("2", "weather"))]


@pytest.mark.parametrize("content", [SGML, XML, "\ufeff" + SGML.lstrip()])
def test_a_queries_file_may_be_topics(tmp_path, content):
    (tmp_path / "topics.txt").write_text(content.lstrip("\n"))
    assert [query_id for query_id, _ in read_queries(tmp_path / "topics.txt")] in (
        ["301", "302"],
        ["1", "2"],
    )


def test_an_id_may_begin_with_what_begins_a_tag(tmp_path):
    (tmp_path / "queries.tsv").write_text("<urn:1>\toak\n<2\t<b>\n")
    assert read_queries(tmp_path / "queries.tsv") == [("<urn:1>", "oak"), ("<2", "<b>")]


FORMS = {
    "a blank first line": "\n\n<top>\n\n<num> Number: 1\n<title> oak\n  tables "
    "\n<desc> x: y\n</top>\n",
    "a comment first": "<!-- made -->\n<top>\n<num> 1\n<title>\noak tables"
    "\n</title>\n</top>\n<top>\n",
    "cdata": '<topics><topic number="1"><title><![CDATA[oak]]> tables</title></topic></topics>',
    "elements": '<topics><topic number="1"><title><b>oak</b>'
    " <i>tables</i></title></topic></topics>",
    "a comment": '<topics><!-- <topic number="9"/> --><topic number="1"><query>oak <!-- x -->'
    "tables</query></topic></topics>",
    "single quotes": "<topics><topic type='a' number='1'>\n<query>oak"
    " tables</query></topic></topics>",
    "a namespace": '<t:topics xmlns:t="urn:t"><t:topic number="1"><t:title>oak tables</t:title>'
    "</t:topic></t:topics>",
    "a doctype": "<?xml version='1.0'?>\n<!DOCTYPE t [<!ELEMENT t (topic)>"
    "\n<!ATTLIST topic type CDATA 'a'>]>"
    "<t><topic number='1'><query>oak tables</query></topic></t>",
    "another encoding": '<?xml version="1.0" encoding="ISO-8859-1"?><topic'
    ' number="1">oak tables</topic>',
    "entities": '<topics><topic number="1"><title>oak &#116;ables</title></topic></topics>',
    "text alone": '<topics task="x"><topic number="1">\n oak\n tables </topic></topics>',
    "ntcir": "<queries>\n<query><qid>1</qid><content>oak"
    " tables</content><description>x</description>"
    "</query></queries>",
    "fire": "<topics>\n<top lang='en'>\n<num>1</num>\n<title>oak tables</title>\n</top>\n</topics>",
    "microblog": "<top>\n<num> Number: 1 </num>\n<query> oak tables </query>"
    "\n<querytime> x <querytime>\n</top>\n",
    "one line each": "<top><num>1</num><title>oak tables</title></top>",
    "a label": "<top>\n<num> Number:  1\n<dom> Domain: x\n<title> Topic:  oak"
    " tables\n<desc> y\n</top>\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_forms_of_topics_read_the_same(tmp_path, form, end):
    content = FORMS[form].removesuffix("<top>\n").replace("\n", end)
    (tmp_path / "topics").write_text(content, newline="")
    assert read_queries(tmp_path / "topics") == [("1", "oak tables")]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("heart rate < 60 and sleep", "heart rate < 60 and sleep"),
        ("AT&T", "AT&T"),
        ("Topic: oak: tables", "oak: tables"),
        ("a > b", "a > b"),
    ],
)
def test_titles_of_sgml_are_text(tmp_path, title, expected):
    (tmp_path / "topics").write_text(f"<top>\n<num> 1\n<title> {title}\n<desc> x\n</top>\n")
    assert read_queries(tmp_path / "topics") == [("1", expected)]


def test_a_file_of_another_form_is_refused_in_one_line(tmp_path):
    for content in (
        "1:oak tables\n2:mills\n",
        "<DOC>\n1\n</DOC>\n<DOC>\n</DOC>\n",
        "1 0 a 1\n" * 3,
    ):
        (tmp_path / "topics").write_text(content)
        with pytest.raises(InputError) as caught:
            read_queries(tmp_path / "topics")
        assert len(caught.value.problems) == 1
        assert ("Million Query" in str(caught.value)) == content.startswith("1:")


PIECES = st.sampled_from(
    [
        "oak",
        " ",
        "\n",
        "&amp;",
        "&lt;b&gt;",
        "<b>x</b>",
        "<!-- <topic> -->",
        "<![CDATA[<a>&]]>",
        "\u00e9",
        ":",
    ]
)
TITLES = st.lists(st.lists(PIECES, max_size=5).map("".join), min_size=1, max_size=3)


@given(TITLES, st.sampled_from(["", "\ufeff", '<?xml version="1.0"?>']), st.sampled_from("\"'"))
def test_topics_of_xml_are_read_as_an_xml_parser_reads_them(tmp_path_factory, titles, head, quote):
    topics = [
        f"<topic number={quote}{number}{quote}><title>{title}</title></topic>"
        for number, title in enumerate(titles)
    ]
    path = tmp_path_factory.getbasetemp() / "topics.xml"
    path.write_text(f"{head}<topics>\n{''.join(topics)}</topics>")
    root = ElementTree.fromstring(path.read_text().removeprefix("\ufeff"))
    expected = [
        (topic.attrib["number"], " ".join("".join(topic.find("title").itertext()).split()))
        for topic in root
    ]
    assert read_queries(path) == expected


def by_ir_datasets(text):
    """Numbers and titles as `TrecQueries` of ir_datasets 0.5.11 takes them from lines."""
    topics, parts, reading = [], {}, None
    tags = {"num": r"<num> *(Number:)?", "title": r"<title> *(Topic:)?", "desc": r"<desc> *"}
    for line in text.splitlines(keepends=True):
        if line.startswith("</top>"):
            topics.append(
                (parts["num"].strip(), " ".join(parts["title"].replace("</title>", "").split()))
            )
            parts, reading = {}, None
        for name, tag in tags.items():
            if begin := re.match(tag, line):
                parts[name], reading = line[begin.end() :], name
                break
        else:
            if reading and not line.startswith("<"):
                parts[reading] += line
    return topics


LINES = st.lists(
    st.sampled_from(
        ["oak", "a < b", "<b>", "x:", "&amp;", "<!-- y -->", "", "</title>", "Topic: z"]
    ),
    min_size=1,
    max_size=3,
).map("\n".join)


@given(st.lists(st.tuples(LINES, st.booleans()), min_size=1, max_size=3))
def test_topics_of_sgml_are_read_as_by_ir_datasets_or_refused(tmp_path_factory, topics):
    text = "".join(
        f"<top>\n<num> Number: {number}\n<title> {title}\n{'<desc> w' * described}\n</top>\n"
        for number, (title, described) in enumerate(topics)
    )
    path = tmp_path_factory.getbasetemp() / "topics.sgml"
    path.write_text(text)
    try:
        read = read_queries(path)
    except InputError:
        return
    assert read == by_ir_datasets(text)


def test_a_title_of_very_many_beginnings_of_tags_is_read_in_time():
    began = time.process_time()
    title = "<a" * 200_000
    ((_, row),) = parse_topics(f"<top>\n<num> 1\n<title> {title}\n</top>\n".encode())
    assert row == ("1", title)
    with pytest.raises(ValueError, match="line 4: .* within a title"):
        parse_topics(f"<top>\n<num> 1\n<title> a\n<{'a.' * 200_000}\n</top>\n".encode())
    assert time.process_time() - began < 10
