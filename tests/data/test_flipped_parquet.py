"""Bits of Parquet files that were flipped: each command that reads one ends in words."""

import json
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

IDS, QUERIES = [f"p{number}" for number in range(50)], [str(number // 5) for number in range(50)]
SCORES = [float(50 - number) for number in range(50)]
TABLES = {
    "run": {"query_id": list(map(int, QUERIES)), "passage_id": IDS, "score": SCORES},
    "collection": {"passage_id": IDS, "text": [f"text {number} x" for number in range(50)]},
    "queries": {"query_id": sorted(set(QUERIES)), "text": ["a lease"] * 10},
}


def arguments(kind, path, folder):
    """A command that reads the file."""
    (folder / "qrels.txt").write_text("".join(f"{n} 0 p{5 * n} 1\n" for n in range(10)))
    if kind == "run":
        return "evaluate", path, "--qrels", folder / "qrels.txt"
    (folder / "passages.tsv").write_text("".join(f"{name}\ta text\n" for name in IDS))
    (folder / "run.tsv").write_text("".join(f"{n}\tp{5 * n}\t1\n" for n in range(10)))
    recipe = {"format": 1, "name": "flipped", "resources": {"backend": "inline"}}
    recipe["collection"] = {"format": "msmarco-v1", "input": "passages.tsv"}
    if kind == "collection":
        recipe["collection"] = {"format": "parquet", "input": path.name}
    else:
        recipe["queries"] = {"dev": {"file": path.name}}
        recipe["stages"] = {"given": {"do": "read", "runs": {"dev": "run.tsv"}}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return "pipeline", folder / "recipe.yaml", "--out", folder / "work"


@pytest.mark.parametrize(
    ("kind", "within"), [("run", b"p"), ("collection", b"text 7"), ("queries", b"a lease")]
)
def test_flipped_bits_of_a_parquet_file_end_in_words(kind, within, raypipe_here, tmp_path):
    path = tmp_path / f"{kind}.parquet"
    as_it_is = {"compression": "none", "use_dictionary": kind == "run", "write_statistics": False}
    pq.write_table(pa.table(TABLES[kind]), path, **as_it_is)
    whole, drawn = path.read_bytes(), Random(4)
    places = [drawn.randrange(len(whole)) for _ in range(40 if kind == "run" else 0)]
    for place in [*places, whole.index(within) + 1]:
        changed = bytearray(whole)
        changed[place] ^= 0x80
        path.write_bytes(changed)
        ended = raypipe_here(*arguments(kind, path, tmp_path))
        assert ended.returncode in (0, 2, 3) and "Traceback" not in ended.stderr, (
            place,
            ended.stderr,
        )
    assert ended.returncode == 2 and f"{path}: cannot be read as Parquet" in ended.stderr
