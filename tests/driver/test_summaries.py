import json
import re
from datetime import UTC, datetime

import pytest

from raypipe.driver.summaries import new_summary, read_summary, write_summary
from raypipe.errors import CorruptError

BODY = {"status": "complete", "exit": 0, "measures": {"dev": {"RR@10": 0.1}}, "name": "é", "n": 3.0}


def test_what_is_written_is_read_and_stays_a_json_object_for_other_readers(tmp_path):
    assert read_summary(tmp_path) is None
    write_summary(tmp_path, BODY)
    assert read_summary(tmp_path) == BODY
    found = json.loads((tmp_path / "summary.json").read_bytes())
    assert len(found.pop("sha256")) == 64 and found == BODY
    one, other = new_summary("mine"), new_summary(None)
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ", one["began"])
    began = datetime.fromisoformat(one["began"])
    assert abs((datetime.now(UTC) - began).total_seconds()) < 60
    assert one["run"] != other["run"] and one["recipe"] == "mine"


def test_every_flipped_bit_and_every_lost_end_is_told(tmp_path):
    """A flipped digit of `exit` would be read as another end."""
    write_summary(tmp_path, BODY)
    good = (tmp_path / "summary.json").read_bytes()
    bad = [good[:length] for length in range(len(good))]
    for position in range(8 * len(good)):
        changed = bytearray(good)
        changed[position // 8] ^= 1 << position % 8
        bad.append(bytes(changed))
    for data in bad:
        (tmp_path / "summary.json").write_bytes(data)
        with pytest.raises(CorruptError, match=r"summary\.json: .* run its recipe again"):
            read_summary(tmp_path)
