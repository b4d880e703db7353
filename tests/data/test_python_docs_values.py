"""The embedded collection's steps on a handful of sections, and packages' sections."""

import builtins
import hashlib
import json

import pytest

from raypipe.data.python_docs import builtin as python_docs_builtin
from raypipe.data.python_docs import packages as python_docs_packages
from raypipe.data.python_docs.build import Draft, PythonDocs, sized, write_python_docs
from raypipe.data.python_docs.draft import _drafted, _named, _queries
from raypipe.data.python_docs.packages import package_sections
from raypipe.data.python_docs.source import Section, docstring_sections, module_sections, topics
from raypipe.data.python_docs.split import SHARES, choose_sections, split_units, unit_of
from raypipe.data.python_docs.text import near_duplicates, paragraphs
from raypipe.data.python_docs.topics import topic_sections
from raypipe.errors import InputError


def section(name, text, title=None, heading=None):
    module, _, rest = name.partition(".")
    return Section(name=name, title=title or module, heading=heading or rest, text=text)


def prose(word, number=6):
    return " ".join(f"{word}{letter}" for letter in "abcdefghij"[:number])


def test_sections_stand_by_module_and_the_first_of_one_name_stays():
    found = _named([section("b.x", "1"), section("a.z", "2"), section("b.x", "3"),
                    section("a.b", "4"), section("a", "5")])  # fmt: skip
    assert [(name, s.text) for name, s in found.items()] == [
        ("a.z", "2"), ("a.b", "4"), ("a", "5"), ("b.x", "1")]  # fmt: skip


def test_queries_have_two_words_are_asked_once_and_stand_in_no_text():
    sections = {
        "m.go": section("m.go", ""),
        "m": section("m", "", heading="m"),  # one word
        "go.m": section("go.m", ""),  # the same two words again
        "m.stop": section("m.stop", ""),  # stands in its second text
        "m.dotStop": section("m.dotStop", ""),  # inside a longer word: in the text all the same
        "m.halt": section("m.halt", ""),
    }
    held = dict.fromkeys(sections, [])
    held["m.stop"] = ["nothing", "before: M, stop. behind"]
    held["m.dotStop"] = ["xm dot stopx"]
    held["m.halt"] = ["m then halt"]
    assert _queries(sections, held) == {"m.go": "m go", "m.halt": "m halt"}


def drafted(*sections, known=(), shares=SHARES):
    return _drafted(sections, shares, frozenset(known))


def test_a_draft_has_every_text_once_and_both_sections_of_a_split_are_relevant():
    shared = prose("s")
    draft = drafted(
        section("m.go", f"{prose('x')}\n\n{shared}"), section("m.halt", shared),
        section("n.say", prose("y")), section("m.no", "too short"),
    )  # fmt: skip
    assert draft.passages == {
        "m.go#1": prose("x"), "m.go#2": shared, "n.say#1": prose("y")}  # fmt: skip
    assert draft.relevant == {
        "m.go": ["m.go#1", "m.go#2"], "m.halt": ["m.go#2"], "n.say": ["n.say#1"]}  # fmt: skip
    assert draft.queries == {"m.go": "m go", "m.halt": "m halt", "n.say": "n say"}
    # Of three queries two are m's: 2 / 0.62 is least; then 1 / 0.23 beside 3 / 0.62 and 1 / 0.15.
    assert draft.splits == {"m.go": "train", "m.halt": "train", "n.say": "test"}
    assert draft.facts == {
        "sections": 4, "near_duplicate_passages_dropped": 0, "near_duplicate_queries_dropped": 0,
    }  # fmt: skip


def test_a_text_of_two_splits_is_the_higher_ones_alone():
    shared = prose("s")
    draft = drafted(section("m.go", prose("x")), section("m.halt", f"{shared}\n\n{prose('z')}"),
                    section("n.say", shared))  # fmt: skip
    assert draft.splits["m.halt"] == "train" and draft.splits["n.say"] == "test"
    assert draft.passages == {
        "m.go#1": prose("x"), "n.say#1": shared, "m.halt#2": prose("z")}  # fmt: skip
    assert draft.relevant == {"m.go": ["m.go#1"], "m.halt": ["m.halt#2"], "n.say": ["n.say#1"]}


@pytest.mark.parametrize(("same", "dropped"), [(5, 0), (6, 1)])
def test_a_near_duplicate_in_a_higher_split_takes_the_passage_and_its_section(same, dropped):
    """Eight words each: 6 shared of 10 are 0.6, 5 of 11 are less."""
    text = f"{prose('s', same)} {prose('y', 8 - same)}"
    draft = drafted(section("m.go", prose("x")), section("m.halt", text),
                    section("n.say", f"{prose('s', same)} {prose('z', 8 - same)}"))  # fmt: skip
    assert draft.facts["near_duplicate_passages_dropped"] == dropped
    assert ("m.halt" in draft.relevant, "m.halt" in draft.queries) == (not dropped, not dropped)
    assert ("m.halt#1" in draft.passages) == (not dropped)
    assert draft.relevant["n.say"] == ["n.say#1"] and draft.passages["m.go#1"] == prose("x")


def test_a_query_near_one_of_a_higher_split_is_not_asked_but_its_passages_stay():
    draft = drafted(
        section("m.go", prose("x")), section("m.one_two_three", prose("y")),
        section("n.say", prose("z"), title="m", heading="one_two_three_four"),
    )  # fmt: skip
    assert draft.queries == {"m.go": "m go", "n.say": "m one two three four"}
    assert "m.one_two_three#1" in draft.passages
    assert draft.facts["near_duplicate_queries_dropped"] == 1


def test_what_is_known_is_neither_text_nor_query():
    draft = drafted(section("m.go", f"{prose('x')}\n\n{prose('y')}"), section("m.halt", prose("x")),
                    section("m.say", prose("z")), known={prose("x"), "m say"})  # fmt: skip
    assert draft.passages == {"m.go#1": prose("y"), "m.say#1": prose("z")}
    assert draft.queries == {"m.go": "m go"}
    assert draft.facts["sections"] == 3


def test_a_collection_of_a_draft_is_counted_and_written(tmp_path):
    names = ["m.go", "m.halt", "n.say"]
    draft = Draft(
        passages={"m.go#1": "x y", "m.halt#1": "z", "n.say#1": "w"},
        relevant={name: [f"{name}#1"] for name in names},
        queries={"m.go": "m go", "n.say": "n say"},
        splits={"m.go": "train", "m.halt": "train", "n.say": "test"},
        facts={"sections": 9},
    )
    docs = sized(draft, max_passages=100)
    assert isinstance(docs, PythonDocs)
    assert docs.passages == [("m.go#1", "x y"), ("m.halt#1", "z"), ("n.say#1", "w")]
    assert docs.queries == {"train": [("m.go", "m go")], "dev": [], "test": [("n.say", "n say")]}
    assert docs.qrels["train"] == [("m.go", "m.go#1", 1)]
    assert docs.facts == {
        "sections": 9, "sections_chosen": 3, "passages": 3,
        "queries": {"train": 1, "dev": 0, "test": 1}, "qrels": {"train": 1, "dev": 0, "test": 1},
    }  # fmt: skip
    # 4 passages: 2 of train's (2.48), none of test's (0.92).
    assert [key for key, _ in sized(draft, max_passages=4).passages] == ["m.go#1", "m.halt#1"]
    equal = {"train": 0.25, "dev": 0.25, "test": 0.25}
    less = [key for key, _ in sized(draft, max_passages=4, shares=equal).passages]
    assert len(less) == 2 and less[1] == "n.say#1"
    write_python_docs(tmp_path / "a" / "b", docs)
    write_python_docs(tmp_path / "a" / "b", docs)
    files = {p.name: p.read_text() for p in (tmp_path / "a" / "b").iterdir()}
    assert files == {
        "collection.tsv": "m.go#1\tx y\nm.halt#1\tz\nn.say#1\tw\n",
        "queries.train.tsv": "m.go\tm go\n", "queries.dev.tsv": "",
        "queries.test.tsv": "n.say\tn say\n", "qrels.train.txt": "m.go 0 m.go#1 1\n",
        "qrels.dev.txt": "", "qrels.test.txt": "n.say 0 n.say#1 1\n",
    }  # fmt: skip


def test_modules_of_one_matter_stay_together_and_ties_go_by_name():
    assert [unit_of(m) for m in ("posixpath", "sre_parse", "html", "asynchat", "json")] == [
        "os", "re", "xml", "asyncore", "json"]  # fmt: skip
    assert split_units({"b": 1, "a": 1}, {"x": 0.5, "y": 0.5}) == {"a": "x", "b": "y"}
    assert split_units({}, SHARES) == {}


def test_a_section_that_fits_exactly_is_chosen():
    passages, splits = {"m.a": ["1", "2"], "m.b": ["3"]}, {"m.a": "x", "m.b": "y"}
    chosen = choose_sections(passages, splits=splits, max_passages=4, shares={"x": 0.5, "y": 0.2})
    assert chosen == {"m.a"}


# Text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d", []),
        ("a b c d e", ["a b c d e"]),
        ("a b c d\n\ne", ["a b c d e"]),
        ("a b c d e\n\nf g h i", ["a b c d e f g h i"]),
        ("a b c d e\n\nf g h i j", ["a b c d e", "f g h i j"]),
        ("a b c\n\nd\n \t\nf g h i j k", ["a b c d f g h i j k"]),
        ("a b c d e ---- f", ["a b c d e f"]),
        ("a b c d e --- f", ["a b c d e --- f"]),
        ("a b c d 0x123456", ["a b c d 0x123456"]),
        ("a b c d 0x1234567", []),
        ("a b c d e /opt/x", []),
        ("a b c d e /etc/x", ["a b c d e /etc/x"]),
        ("a b c d see.org/usr/x", ["a b c d see.org/usr/x"]),
    ],
)
def test_paragraphs_at_their_bounds(text, expected):
    assert paragraphs(text) == expected


@pytest.mark.parametrize(("last", "sizes"), [(50, [150]), (51, [100, 51])])
def test_sentences_fill_150_words_and_signs_exactly(last, sizes):
    parts = [" ".join(["w"] * (number - 1)) + "." for number in (50, 50, last)]
    cut = paragraphs(" ".join(parts))
    assert [len(each.replace(".", " .").split()) for each in cut] == sizes


def test_near_duplicates_of_one_group_and_below_the_threshold_are_none():
    texts = ["a b c", "a b c d", "a b c", "x"]
    assert near_duplicates(texts, groups=[0, 1, 0, 1], threshold=0.75) == [(0, 1), (1, 2)]
    assert near_duplicates(texts, groups=[0, 1, 0, 1], threshold=0.76) == []
    assert near_duplicates(texts, groups=[0, 0, 0, 0], threshold=0.5) == []


# Topics


def test_definitions_stack_and_headings_end_them():
    text = "T\n===\n\nf(a)\n   One.\ng(b)\n   Two.\nPlain.\nInner\n---\n   3.\nh(c)\n\nk(d)\n  4.\n"
    found = {s.heading: s.text.split() for s in topic_sections({"t": text})}
    assert found == {
        "": ["Plain."], "f": ["f(a)", "One."], "g": ["g(b)", "Two."], "Inner": ["3."],
        "h": ["h(c)", "k(d)", "4."],
    }  # fmt: skip
    names = [s.name for s in topic_sections({"b": "B\n***\n\nx", "a": "A\n***\n\ny", "c": ""})]
    assert names == ["topics.a", "topics.b"]


# Source files


def test_docstrings_of_branches_and_of_methods_have_dotted_names(tmp_path):
    (tmp_path / "m.py").write_text(
        "'Module.'\nif x:\n  def a(): 'A.'\nelse:\n  def b(): 'B.'\n"
        "class C:\n  def d(self): 'D.'\n  class E:\n    'E.'\n  def _f(self): 'no'\n"
    )
    found = [(s.name, s.heading, s.text) for s in module_sections("m", tmp_path / "m.py")]
    assert found == [
        ("m", "", "Module."), ("m.a", "a", "A."), ("m.b", "b", "B."),
        ("m.C.d", "C.d", "D."), ("m.C.E", "C.E", "E."),
    ]  # fmt: skip


def test_modules_that_are_left_out_are_left_out_with_all_below(tmp_path):
    for name in ("ctypes/macholib/x", "ctypes/y", "unittest/tests/z", "dbm/gnu", "dbm/dumb",
                 "_pydecimal", "_abc", "encodings/utf_8", "json/_a/b"):  # fmt: skip
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("'Doc.'")
    found = [s.name for s in docstring_sections(tmp_path)]
    assert found == ["ctypes.y", "dbm.dumb", "decimal", "json.b"]
    assert topics(tmp_path) == {}
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text("other = {'a': 'b'}\n")
    assert topics(tmp_path) == {}


def test_builtin_sections_are_of_what_c_defined():
    found = {s.name: s for s in python_docs_builtin._sections()}
    assert found["math.gcd"].title == "math" and found["math.gcd"].heading == "gcd"
    assert {"builtins.dict.get", "array.array.append", "itertools.chain.from_iterable"} <= set(
        found
    )
    assert found["builtins.int.from_bytes"].text.startswith("Return the integer represented")
    names = [name.split(".") for name in found]
    assert not [name for name in names if name[1].startswith("_") or name[-1].startswith("_")]
    assert not {"math.pi", "builtins.True", "builtins.Ellipsis"} & set(found)
    assert list(found)[0].startswith("array.") and list(found)[-1].startswith("math.")
    kinds = [value for name, value in python_docs_builtin._objects(builtins) if "." not in name]
    assert len(kinds) > 100 and all(callable(kind) for kind in kinds)
    assert not any(s.text.startswith(" ") for s in found.values())


# Packages


def test_sections_of_packages_leave_out_tests_private_and_broken_files(tmp_path, monkeypatch):
    site = tmp_path / "site"
    files = {
        "beta/__init__.py": "'Beta.'", "beta/_inner/deep.py": "def f(): 'F.'",
        "beta/tests/t.py": "'no'", "beta/broken.py": "def (", "beta/docs.py": "'no'",
        "alpha.py": "'Alpha.'", "_hidden.py": "'no'", "json/__init__.py": "'no'",
        "data/readme.txt": "", "setup.py": "'no'", "beta/large.py": "'no' #" + "x" * 93,
        "beta/small.py": "'yes' #" + "x" * 92,
    }  # fmt: skip
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    assert python_docs_packages.MAX_BYTES == 2_000_000
    monkeypatch.setattr(python_docs_packages, "MAX_BYTES", 100)
    assert (len(files["beta/large.py"]), len(files["beta/small.py"])) == (99, 99)
    (site / "beta/large.py").write_text("'no' #" + "x" * 94)
    found = [(s.name, s.text) for s in package_sections([site])]
    assert found == [
        ("alpha", "Alpha."), ("beta", "Beta."),
        ("beta.deep.f", "F."), ("beta.small", "yes"),
    ]  # fmt: skip
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="expected installed packages, found none"):
        list(package_sections([empty]))


def test_sections_of_c_are_printed_as_json(capsys):
    python_docs_builtin.print_sections()
    rows = json.loads(capsys.readouterr().out)
    expected = [[s.name, s.title, s.heading, s.text] for s in python_docs_builtin._sections()]
    assert rows == expected and len(rows) > 300


def test_sections_are_chosen_in_the_order_of_their_names_sha256():
    """Their digests begin with 56, 3e and 77."""
    names = ["m.a", "m.b", "m.c"]
    order = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    for count in (1, 2, 3):
        chosen = choose_sections(
            {name: [name] for name in names},
            splits=dict.fromkeys(names, "x"),
            max_passages=count,
            shares={"x": 1.0},
        )
        assert chosen == set(order[:count])
