from raypipe.data.python_docs.topics import topic_sections


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
