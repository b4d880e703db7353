from raypipe.driver.analysis.movers import movers


def test_each_reranker_has_the_passages_that_it_moved_with_texts_and_grades(finished):
    section = movers(finished, "test", num=3)
    assert [t.title for t in section.tables] == [
        f"Moved furthest by {name}" for name in ("first", "second", "least")
    ]
    table = section.tables[0]
    assert table.columns[:5] == ["query", "passage", "dense", "first", "grade"]
    runs = {
        name: {
            (line["query_id"], line["passage_id"]): line["rank"]
            for line in finished.named(finished.run(name, "test"), "test").to_pylist()
        }
        for name in ("dense", "first")
    }
    texts = {row["text"]: row["query_id"] for row in finished.queries("test").to_pylist()}
    rises = []
    for text, passage, before, after, grade, shared, words in table.rows:
        key = (texts[text], passage)
        assert (before, after) == (runs["dense"][key], runs["first"][key]) and before != after
        judged = {("q1", p): 1 for p in ("p1", "p9")} | {("q1", "p2"): 0}
        judged |= {("q2", "p7"): 1, ("q3", "p3"): 1}
        assert grade == judged.get(key)
        both = [word for word in text.split() if word in words.split()]
        assert shared == (", ".join(both) or "none")
        rises.append(before - after)
    largest = max(b - runs["first"][key] for key, b in runs["dense"].items() if b <= 8)
    assert rises[0] == largest


def test_a_long_text_is_cut(finished, monkeypatch):
    monkeypatch.setattr("raypipe.driver.analysis.movers.NUM_CHARACTERS", 12)
    texts = [row[-1] for row in movers(finished, "test").tables[0].rows]
    assert any(len(text) == 12 + len(" ...") and text.endswith(" ...") for text in texts)
    assert all(len(text) <= 12 + len(" ...") for text in texts)
