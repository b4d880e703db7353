import pytest

from raypipe.driver.sweep.state import (
    Row,
    Sweep,
    is_sweep,
    point_address,
    point_folder,
    point_name,
    read_sweep,
    write_sweep,
)
from raypipe.errors import CorruptError

ROW = Row({"k": 2}, "k=2", "dev", "mono", 3, {"RR@10": 0.5}, None, 2.0)
SWEEP = Sweep("mine", None, {"k=2": {"k": 2}, "k=x": {"k": "x"}}, [ROW])


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"stages.m.k0": 20, "stages.bm25.bm25.b": 0.4}, "stages.m.k0=20,stages.bm25.bm25.b=0.4"),
        ({"stages.f.method": "rrf"}, "stages.f.method=rrf"),
        ({"resources.reuse": True}, "resources.reuse=true"),
        ({"stages.f.k": 1e-5}, "stages.f.k=1.0e-05"),
        ({"a": 1, "b": -2}, "a=1,b=-2"),
    ],
)  # fmt: skip
def test_a_plain_point_has_a_name_that_is_its_overrides(values, name):
    assert point_name(values) == name


def test_other_values_have_names_that_folders_can_have_and_that_differ():
    values = ["a/b", "a b", "a-b?", [1, 2], {"x": 1}, "2", "x" * 300, "é"]
    names = [point_name({"key": value}) for value in values]
    assert len(set(names)) == len(names)
    assert all(name.isascii() and "/" not in name and len(name) < 130 for name in names)
    assert names[0].startswith("key=a-b-") and len(names[0]) == len("key=a-b-") + 8
    assert point_name({"key": 2}) != point_name({"key": "2"})


def test_what_is_written_is_read(tmp_path):
    assert not is_sweep(tmp_path) and read_sweep(tmp_path) is None
    write_sweep(tmp_path, SWEEP)
    assert is_sweep(tmp_path) and read_sweep(tmp_path) == SWEEP
    assert SWEEP.keys == ["k"]
    assert point_folder(tmp_path, "k=2") == tmp_path / "points" / "k=2"
    assert point_address(tmp_path, "k=2") == f"{tmp_path}/points/k=2"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("{", "[", "not JSON"),
        ('"stores": null', '"stores": 3', "stores: "),
        ('"n": 3', '"n": "3"', r"rows\.0\.n"),
        ('"system"', '"sytem"', r"rows\.0\."),
        ('"points": {', '"points": {}, "more": {', "points: "),
    ],
)
def test_a_damaged_file_is_told_with_the_remedy(tmp_path, before, after, told):
    write_sweep(tmp_path, SWEEP)
    path = tmp_path / "sweep.json"
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(CorruptError, match=rf"sweep\.json: {told}.*run the same command again"):
        read_sweep(tmp_path)
