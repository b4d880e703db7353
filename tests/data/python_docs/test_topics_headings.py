from raypipe.data.python_docs.topics import topic_sections


def test_definitions_stack_and_headings_end_them():
    text = "T\n===\n\nf(a)\n   One.\ng(b)\n   Two.\nPlain.\nInner\n---\n   3.\nh(c)\n\nk(d)\n  4.\n"
    found = {s.heading: s.text.split() for s in topic_sections({"t": text})}
    assert found == {
        "": ["Plain."], "f": ["f(a)", "One."], "g": ["g(b)", "Two."], "Inner": ["3."],
        "h": ["h(c)", "k(d)", "4."],
    }  # fmt: skip
    names = [s.name for s in topic_sections({"b": "B\n***\n\nx", "a": "A\n***\n\ny", "c": ""})]
    assert names == ["topics.a", "topics.b"]
