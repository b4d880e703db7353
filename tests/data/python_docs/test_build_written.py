from raypipe.data.python_docs.build import DocsDraft, PythonDocs, sized, write_python_docs


def test_a_collection_of_a_draft_is_counted_and_written(tmp_path):
    names = ["m.go", "m.halt", "n.say"]
    draft = DocsDraft(
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
