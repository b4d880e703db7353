from raypipe.driver.upkeep.verify import file_damage
from raypipe.storage.records import digest


def test_a_file_that_differs_or_is_gone_is_named_with_what_to_delete(tmp_path):
    names = [
        "table.md",
        "runs/dev/a.trec",
        "python-docs/passages.tsv",
        "triples/a/queries.tsv",
        "collections/b/python-docs/qrels.test.txt",
        "collections/b/workspace.json",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    summary = {"files": {name: digest(name.encode()) for name in names}}
    assert list(file_damage(tmp_path, summary)) == [] == list(file_damage(tmp_path, {}))
    for number, name in enumerate(names):
        (tmp_path / name).write_text("x") if number % 2 else (tmp_path / name).unlink()
    found = {damage.name: damage for damage in file_damage(tmp_path, summary)}
    assert list(found) == names and "no such file" in found["table.md"].problem
    assert [
        damage.remedy.removesuffix(" and run again to write it") for damage in found.values()
    ] == [
        "delete table.md",
        "delete runs/dev/a.trec",
        "delete the folder python-docs",
        "delete the folder triples/a",
        "delete the folder collections/b/python-docs",
        "delete collections/b/workspace.json",
    ]
