import json
import os

from raypipe.storage.records import canonical
from raypipe.storage.spec import StageSpec


def test_a_change_from_or_to_nothing_is_told():
    old = StageSpec("s", 1, {"a": {}, "b": {"c": [1, 2]}, "h": "a" * 31}, {})
    new = StageSpec("s", 1, {"a": {"x": 1}, "b": {"c": [2, 1]}, "h": "a" * 33}, {"i": "f" * 32})
    assert [str(change) for change in old.diff(new)] == [
        "inputs {} -> null",
        f"inputs.i null -> {'f' * 12}",
        "params.a {} -> null",
        "params.a.x null -> 1",
        "params.b.c [1,2] -> [2,1]",
        f"params.h {'a' * 31} -> {'a' * 12}",
    ]
    assert len(old.fingerprint()) == 32 and json.loads(canonical(old.to_json()))["stage"] == "s"
    assert StageSpec.from_json(old.to_json()) == old
    assert os.sep not in old.fingerprint()
