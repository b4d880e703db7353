"""A pipeline over TREC CAR's files: headings at two levels, and topics without a result."""

import pytest
from car_files import page_2, paragraph, section, under, with_head, words
from recipes import invoke

from raypipe.errors import InputError

RECIPE = """
format: 1
name: car
collection: {format: trec-car, input: car.cbor}
queries:
  sections:
    car: {level: hierarchical, outlines: pages.cbor, pages: pages.cbor}
    only_judged: true
  pages: {car: {level: article, pages: pages.cbor}}
stages:
  given: {do: read, runs: {sections: sections.trec, pages: pages.trec}}
evaluate: {measures: [AP, RR]}
resources: {backend: inline, device: cpu}
"""


@pytest.fixture
def folder(tmp_path):
    records = [paragraph(f"p{n}", words(f"text {n}")) for n in range(5)]
    (tmp_path / "car.cbor").write_bytes(with_head(2, *records))
    pages = (
        page_2("enwiki:A", section("S", under("p0"), under("p1")), section("Empty")),
        page_2("enwiki:B%20C", section("T", under("p2"))),
    )
    (tmp_path / "pages.cbor").write_bytes(with_head(0, *pages))
    lines = ["enwiki:A/S Q0 p4 1 3 x", "enwiki:A/S Q0 p1 2 2 x", "enwiki:A/S Q0 p0 3 1 x"]
    (tmp_path / "sections.trec").write_text("\n".join(lines) + "\n")
    lines = ["enwiki:A Q0 p0 1 2 x", "enwiki:B%20C Q0 p3 1 2 x", "enwiki:B%20C Q0 p2 2 1 x"]
    (tmp_path / "pages.trec").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_means_are_over_all_judged_topics_and_the_start_weights_rule_is_printed(folder, tmp_path):
    outcome = invoke(RECIPE, tmp_path / "out", base=folder)
    # A/S has both its passages at ranks 2 and 3; B/T has no result and counts 0; A/Empty is not
    # judged.
    expected = {"AP": (1 / 2 + 2 / 3) / 2 / 2, "RR": 1 / 2 / 2}
    assert outcome.summary["measures"]["sections"]["given"] == pytest.approx(expected)
    expected = {"AP": (1 / 2 + 1 / 2) / 2, "RR": (1 + 1 / 2) / 2}
    assert outcome.summary["measures"]["pages"]["given"] == pytest.approx(expected)
    assert outcome.summary["stages"]["queries@sections"]["rows"] == 2
    assert "given: judged queries without a result, each counting 0: 1" in outcome.table
    assert outcome.table.count("- the passages are Wikipedia's: start weights that saw") == 2
    queries = (tmp_path / "out/topics/sections/queries.tsv").read_text()
    assert queries == "enwiki:A/S\tA S\nenwiki:A/Empty\tA Empty\nenwiki:B%20C/T\tB C T\n"


def test_a_cut_file_is_told_and_the_mended_one_is_read_by_the_same_command(folder, tmp_path):
    whole = (tmp_path / "car.cbor").read_bytes()
    (tmp_path / "car.cbor").write_bytes(whole[:-1])
    for _ in range(2):
        with pytest.raises(InputError, match="car.cbor: cut off: the file ends at byte"):
            invoke(RECIPE, tmp_path / "out", base=folder)
    (tmp_path / "car.cbor").write_bytes(whole)
    assert invoke(RECIPE, tmp_path / "out", base=folder).summary["exit"] == 0


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_shards_of_any_size_hold_the_same_passages(folder, tmp_path, rows):
    from raypipe import schema
    from raypipe.data.facts import count_file
    from raypipe.stages.prepare import ConvertStage
    from raypipe.stages.stage import Site, Sizing
    from raypipe.storage.payloads import read_table

    path = tmp_path / "car.cbor"
    facts = count_file(path, format="trec-car", checkpoint_records=2)
    stage = ConvertStage([path], [facts], "trec-car")
    found = []
    sizing = Sizing(num_actors=1, shard_tokens=1, shard_rows=rows, shard_queries=1)
    run = stage.open(Site(scratch=tmp_path)).run
    for shard in stage.shards(sizing):
        payload = run(shard, (), lambda rows: None)
        found += read_table(payload.path, schema.PASSAGES)["text"].to_pylist()
    assert found == [f"text {n}" for n in range(5)]
