import pytest

from raypipe.driver.analysis.by_query.movers import movers
from raypipe.driver.analysis.by_query.reordered import below, trees
from raypipe.errors import InputError

JUDGED = {("q1", p): 1 for p in ("p1", "p9")} | {("q1", "p2"): 0, ("q2", "p7"): 1, ("q3", "p3"): 1}


@pytest.fixture(scope="module")
def ranks(finished):
    """System -> (query, passage) -> rank."""
    return {
        name: {
            (line["query_id"], line["passage_id"]): line["rank"]
            for line in finished.named(finished.run(name, "test"), "test").to_pylist()
        }
        for name in finished.systems("test")
    }


@pytest.mark.slow
def test_a_tree_is_a_first_stage_and_the_rerankers_over_it(finished, given):
    (tree,) = trees(finished, "test")
    assert tree.systems == ["dense", "first", "second", "least"]
    assert tree.before == {"first": "dense", "second": "first", "least": "first"}
    assert (below(tree, "least"), below(tree, "dense")) == (["dense", "first"], [])
    assert trees(given, "test") == []


def test_each_reranker_has_the_passages_that_it_moved_with_texts_and_grades(finished, ranks):
    section = movers(finished, "test", num=3)
    tables = {table.title: table for table in section.tables}
    assert "Moved furthest by first" in tables
    texts = {row["text"]: row["query_id"] for row in finished.queries("test").to_pylist()}
    for name, systems in (("first", ["dense", "first"]), ("second", ["dense", "first", "second"])):
        k, rises, before = {"first": 8, "second": 5}[name], [], ranks[systems[-2]]
        moved = [before[key] - ranks[name][key] for key in JUDGED if before.get(key, 99) <= k]
        if not any(moved):
            assert f"Moved furthest by {name}" not in tables
            continue
        table = tables[f"Moved furthest by {name}"]
        assert table.columns == ["query", "passage", *systems, "grade", "shared words", "text"]
        for text, passage, *places, grade, shared, words in table.rows:
            key = (texts[text], passage)
            assert places == [ranks[system][key] for system in systems]
            assert grade == JUDGED[key], "a passage without a judgement is left out"
            both = [word for word in text.split() if word in words.split()]
            assert shared == (", ".join(both) or "none")
            rises.append(places[-2] - places[-1])
        assert 0 not in rises and max([0, *rises]) == max([0, *moved])
        assert min([0, *rises]) == min([0, *moved])


def test_the_most_changed_queries_follow_with_every_rank(finished, ranks):
    section = movers(finished, "test", num=3)
    reciprocal = {"dense": {}, "least": {}}
    for system, own in reciprocal.items():
        for (query, passage), grade in JUDGED.items():
            rank = ranks[system].get((query, passage), 99)
            value = 1 / rank if grade and rank <= 10 else 0.0
            own[query] = max(own.get(query, 0.0), value)
    change = {q: reciprocal["least"][q] - reciprocal["dense"][q] for q in ("q1", "q2", "q3")}
    changed = sorted((q for q in change if change[q]), key=lambda q: (-abs(change[q]), q))
    found = [t.title.split(":")[0] for t in section.tables if not t.title.startswith("Moved")]
    assert found == changed and changed


def test_chosen_queries_alone_with_their_relevant_passages(finished, ranks):
    section = movers(finished, "test", num=1, chosen=["q3", "q1"])
    assert [t.title for t in section.tables] == ["q3: zeta eta theta iota", "q1: beta gamma"]
    table = section.tables[1]
    systems = ["dense", "first", "second", "least"]
    assert table.columns == ["passage", *systems, "grade", "shared words", "text"]
    for passage, *places, grade, _, _ in table.rows:
        assert places == [ranks[system].get(("q1", passage)) for system in systems]
        assert grade == JUDGED["q1", passage]
    last = [row[4] for row in table.rows]
    assert last == sorted(last)
    relevant = [p for p in ("p1", "p9") if len({ranks[s].get(("q1", p)) for s in systems}) > 1]
    assert set(relevant[:1]) <= {row[0] for row in table.rows}
    with pytest.raises(InputError, match="--query q9: no such query in test"):
        movers(finished, "test", chosen=["q9"])


def test_without_a_reranker_there_is_a_note(given):
    section = movers(given, "test")
    assert not section.tables and "no stage reranks passages" in section.notes[-1]


def test_a_long_text_is_cut(finished, monkeypatch):
    monkeypatch.setattr("raypipe.driver.analysis.by_query.movers.NUM_CHARACTERS", 12)
    texts = [row[-1] for row in movers(finished, "test").tables[0].rows]
    assert any(text.endswith(" ...") for text in texts)
    assert all(len(text) <= 12 + len(" ...") for text in texts)
