from raypipe.data.python_docs.build import topic_sections


def test_topics_are_divided_at_headings_and_definitions() -> None:
    text = (
        'The "x" thing\n*************\n\nFirst.\n\nInner part\n==========\n\nSecond.\n\n'
        "object.f(self)\nobject.g(self)\n\n   Third.\n\n   inner(call)\n\nFourth.\n"
    )
    sections = list(topic_sections({"x": text}))
    assert [(each.name, each.title, each.heading) for each in sections] == [
        ("topics.x", 'The "x" thing', ""),
        ("topics.x-inner-part", 'The "x" thing', "Inner part"),
        ("topics.x-object-f", 'The "x" thing', "object.f"),
    ]
    assert [each.text.split() for each in sections] == [
        ["First."],
        ["Second.", "Fourth."],
        ["object.f(self)", "object.g(self)", "Third.", "inner(call)"],
    ]


def test_definitions_stack_and_headings_end_them():
    text = "T\n===\n\nf(a)\n   One.\ng(b)\n   Two.\nPlain.\nInner\n---\n   3.\nh(c)\n\nk(d)\n  4.\n"
    found = {s.heading: s.text.split() for s in topic_sections({"t": text})}
    assert found == {
        "": ["Plain."], "f": ["f(a)", "One."], "g": ["g(b)", "Two."], "Inner": ["3."],
        "h": ["h(c)", "k(d)", "4."],
    }  # fmt: skip
    names = [s.name for s in topic_sections({"b": "B\n***\n\nx", "a": "A\n***\n\ny", "c": ""})]
    assert names == ["topics.a", "topics.b"]
