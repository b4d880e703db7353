import pytest

from raypipe.data.python_docs.build import (
    SHARES,
    DocsDraft,
    _drafted,
    _named,
    _queries,
    sized,
)
from raypipe.data.python_docs.source import DocSection


def section(name, text, title=None, heading=None):
    module, _, rest = name.partition(".")
    return DocSection(name=name, title=title or module, heading=heading or rest, text=text)


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


@pytest.fixture(scope="module")
def draft(docs_draft: DocsDraft) -> DocsDraft:
    return docs_draft


def test_known_sections_of_the_documentation_are_found(draft: DocsDraft) -> None:
    everything = sized(draft, max_passages=100_000)
    ids = {passage_id for passage_id, _ in everything.passages}
    assert {"heapq.heappush#1", "builtins.str.upper#1"} <= ids
    queries = {key: text for rows in everything.queries.values() for key, text in rows}
    assert queries["collections.OrderedDict.move_to_end"] == "collections ordered dict move to end"
    assert queries["builtins.str.upper"] == "builtins str upper"
    assert queries["topics.string-methods-str-center"] == "string methods str center"
    left_out = ("tkinter.", "idlelib.", "test.", "site.", "numpy.", "pytest.", "antigravity#")
    assert not [each for each in ids if each.startswith(left_out)]
