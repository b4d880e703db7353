"""The arithmetic of scaling, by hand; its measurements are made by hand, at full size."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import scaling
from scaling_costs import Measured, Search, Work, works

MEASURED = Measured(
    loop_ms=0.1,
    ray_ms=2.0,
    wait_ms=(0.1, 0.4),
    store_ms=0.7,
    check_bytes=1e9,
    merge_seconds=1e-6,
    merge_bytes=100.0,
)


def test_pairs_are_a_thousand_candidates_and_every_order_of_fifty():
    assert [work.inputs for work in works(8_841_823)] == [8_841_823, 6_980_000, 17_101_000]


@pytest.mark.parametrize(("gpus", "turns"), [(1, 10), (2, 5), (3, 4), (8, 2), (10, 1), (64, 1)])
def test_shards_of_four_million_tokens_are_computed_in_turns(gpus, turns):
    work = Work("encode", inputs=400_000, tokens=100.0, rate=1_000.0)
    assert work.shards == 10
    assert work.seconds(gpus) == pytest.approx(turns * 40.0)


def test_a_driver_serves_as_many_gpus_as_shards_are_computed_while_it_handles_one():
    work = Work("encode", inputs=400_000, tokens=100.0, rate=1_000.0)
    # 2.0 + (0.4 - 0.1) + 0.7 ms a shard; a GPU takes 40 s for one.
    assert work.gpus_per_driver(MEASURED, 4_000_000) == pytest.approx(40.0 / 0.003)


def test_the_parts_of_a_search_grow_with_the_actors_and_its_products_shrink():
    one, four = Search(8_841_823, 1, MEASURED), Search(8_841_823, 4, MEASURED)
    assert one.product_seconds == pytest.approx(4 * four.product_seconds)
    assert (one.lines, four.lines) == (2_000, 8_000)
    # Seven blocks of queries: seven turns of one actor, two of four.
    assert one.merge_seconds == pytest.approx(6_980 * 2_000 * 1e-6)
    assert four.merge_seconds == pytest.approx(2 * 6_980 / 7 * 8_000 * 1e-6)
    assert four.merge_bytes == pytest.approx(1_000 * 8_000 * 100.0)


def test_a_search_has_no_more_spans_than_the_embeddings_have_shards():
    assert Search(8_841_823, 512, MEASURED).lines == 1_000 * 162


def test_kept_measurements_are_printed_again(tmp_path, capsys):
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(MEASURED.__dict__))
    assert scaling.main(["--kept", str(kept)]) == 0
    told = capsys.readouterr().out
    assert "; 3.00 in all" in told and "of 64 at work" in told
    # 13.6 GB at 1 GB/s take 13.58 s, in which 82 GPUs encode the passages.
    assert re.search(r"13\.6 GB of embeddings .* takes 13\.6 s, .* on 82 GPUs", told)


@pytest.mark.ray
@pytest.mark.long
def test_everything_is_measured_in_small(tmp_path):
    kept = tmp_path / "kept.json"
    command = [sys.executable, str(Path(scaling.__file__)), "--kept", str(kept)]
    command += "--shards 300 --actors 16 --rounds 1 --mib 1 --queries 20".split()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split("|")[1:5] for line in done.stdout.splitlines()[2:14]]
    cells = [[cell.strip() for cell in row[:3]] for row in rows]
    worlds, sizes = ("calm", "with faults"), ("30", "300")
    assert cells == [[w, a, s] for w in worlds for a in ("1", "2", "16") for s in sizes]
    measured = Measured(**json.loads(kept.read_text()))
    assert measured.ray_ms > measured.loop_ms > 0
    assert measured.store_ms > 0 and measured.check_bytes > 1e6 and measured.merge_seconds > 0
