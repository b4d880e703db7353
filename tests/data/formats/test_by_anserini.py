"""Collections of JSON are read as Anserini's own classes read them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.data.facts import count_file
from raypipe.data.formats.registry import FORMATS
from raypipe.data.reading import read_records
from raypipe.engines.lucene.java import start_jvm
from raypipe.errors import InputError

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

PARTS = (
    "{",
    "}",
    "[",
    "]",
    ",",
    "\n",
    " ",
    '"id": "1"',
    '"contents": "a {"',
    "5",
    '{"id": "2", "contents": "c"}',
    '"',
    "\\",
)


def by_anserini(folder):
    """Every id and contents of the folder, or None if one of its files is not read to its end."""
    autoclass, _ = start_jvm()
    path = autoclass("java.nio.file.Paths").get(str(folder))
    collection = autoclass("io.anserini.collection.JsonCollection")(path)
    found = []
    for segment in iterated(collection):
        try:
            found += [(each.id(), each.contents()) for each in iterated(segment)]
        except Exception:  # Java's own, whatever it is
            return None
        if segment.getErrorStatus() or segment.getSkippedCount():
            return None
    return sorted(found)


def iterated(of):
    each = of.iterator()
    while each.hasNext():
        yield each.next()


def by_raypipe(folder):
    try:
        found = []
        for file in FORMATS["pyserini"].files([folder]):
            facts = count_file(file, format="pyserini")
            stop = facts.num_records
            found += read_records(file, format="pyserini", start=0, stop=stop, facts=facts)
    except InputError:
        return None
    return sorted(found)


def test_arrays_objects_lines_and_sub_folders_give_the_same_passages(tmp_path):
    objects = [{"id": f"d{n}", "contents": f'{n} "}}]\\ é\u2028'} for n in range(6)]
    (tmp_path / "x/y").mkdir(parents=True)
    (tmp_path / "a.json").write_text(json.dumps(objects[:2]))
    (tmp_path / "x/b.json").write_text(json.dumps(objects[2], indent=1))
    (tmp_path / "x/y/c.json").write_text("\n".join(json.dumps(o, indent=1) for o in objects[3:5]))
    (tmp_path / "x/d.jsonl").write_text(json.dumps(objects[5]) + "\n")
    expected = [(each["id"], each["contents"]) for each in objects]
    assert by_anserini(tmp_path) == by_raypipe(tmp_path) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=3, max_size=14), st.booleans())
def test_what_is_read_of_any_text_is_what_anserini_reads(tmp_path_factory, parts, in_array):
    folder = tmp_path_factory.mktemp("j")
    whole = '{\n"id": "0",\n"contents": "b"}'
    text = "".join(parts)
    (folder / "a.json").write_text(f"[{whole},{text}]" if in_array else f"{whole}\n{text}")
    found = by_raypipe(folder)
    assert found is None or found == by_anserini(folder)
