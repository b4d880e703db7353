import csv
import io
import json

from results_by_hand import by_hand

from raypipe.evaluation.tables import as_csv, as_json, brief, markdown


def test_csv_has_a_line_for_each_system_and_query_set_and_every_digit():
    lines = list(csv.DictReader(io.StringIO(as_csv([by_hand(), by_hand("test", None)]))))
    assert [(line["query_set"], line["system"]) for line in lines] == [
        (query_set, system)
        for query_set in ("dev", "test")
        for system in ("bm25", "mono_a", "duo", "worse")
    ]
    _, mono, duo, *_ = lines
    assert mono["reranks"] == "R&D, 50%" and mono["topics"] == "7" and mono["unit"] == "passages"
    assert float(duo["RR(rel=2)@10"]) == 0.50001 and float(duo["NumRet"]) == 30
    assert (mono["ms_per_query"], duo["ms_per_query"]) == ("12.34", "")
    assert (mono["computed_per_query"], duo["inferences_per_query"]) == ("40.0", "1060.0")
    compared = {name: mono[f"RR(rel=2)@10 {name}"] for name in ("difference", "low", "high")}
    assert compared == {"difference": "0.25", "low": "0.15", "high": "0.35"}
    assert float(mono["RR(rel=2)@10 p"]) == 0.0499 / 3 and mono["RR(rel=2)@10 p_holm"] == "0.0499"
    assert {line["RR(rel=2)@10 p"] for line in lines[4:]} == {""}
    alone = as_csv([by_hand(baseline=None)]).splitlines()[0]
    assert alone.endswith("computed_per_query,RR(rel=2)@10,NumRet")
    signs = ("wins", "ties", "losses")
    assert [mono[f"RR(rel=2)@10 {sign}"] for sign in signs] == ["4", "2", "1"]
    assert [mono[f"NumRet {sign}"] for sign in signs] == ["1", "6", "0"]
    assert (mono["NumRet difference"], mono["NumRet p"]) == ("-10.0", "")
    assert (mono["RR(rel=2)@10 p_t"], "larger_collection" in mono) == ("0.25", False)


def test_json_has_all_that_is_known():
    body = json.loads(as_json([by_hand(), by_hand("test", None)]))
    dev, test = body["tables"]
    assert body["recipe"] == "re_cipe" and (dev["query_set"], test["query_set"]) == ("dev", "test")
    assert (dev["topics"], dev["baseline"], dev["measures"]) == (
        7,
        "bm25",
        ["RR(rel=2)@10", "NumRet"],
    )
    assert dev["correction"] == "Holm, 3 comparisons" and "randomisation" in dev["test"]
    assert test["test"] is test["correction"] is test["baseline"] is None
    base, mono, *_ = dev["systems"]
    assert base["measures"] == {"RR(rel=2)@10": {"mean": 0.25}, "NumRet": {"mean": 40.0}}
    assert mono["measures"]["RR(rel=2)@10"] == {
        "mean": 0.5, "difference": 0.25, "low": 0.15, "high": 0.35, "wins": 4, "ties": 2,
        "losses": 1, "p": 0.0499 / 3, "p_holm": 0.0499, "p_t": 0.25,
    }  # fmt: skip
    assert (mono["inferences_per_query"], mono["ms_per_query"]) == (40.0, 12.34)
    assert mono["measures"]["NumRet"] == {
        "mean": 30.0, "difference": -10.0, "low": 0.0, "high": 0.0, "wins": 1, "ties": 6,
        "losses": 0,
    }  # fmt: skip
    assert mono["larger_collection"] is None and dev["notes"] == ["a note"]


def test_markdown_has_a_heading_for_each_query_set():
    text = markdown([by_hand(), by_hand("test")])
    assert [line for line in text.splitlines() if line.startswith("#")] == ["## dev", "## test"]
    assert "| mono_a | R&D, 50% | m#1   | 0.5000 " in text


def test_the_brief_table_has_the_first_measures_interval_and_the_costs():
    summary = {
        "systems": {"dev": {"a": {"ms_per_query": 1.25}, "b": {"ms_per_query": None}}},
        "measures": {
            "dev": {
                "a": {"nDCG@10": 0.5, "RR@10": 0.25, "AP": 0.1, "R@100": 1.0},
                "b": {"nDCG@10": 0.4, "RR@10": 0.75, "AP": 0.2, "R@100": 0.0},
            }
        },
        "differences": {"dev": {"b": {"nDCG@10": [-0.1, -0.2, 0.05], "AP": [0.1, 0.0, 0.2]}}},
    }
    rows = [
        [c.strip() for c in line.split("|")[1:-1]] for line in brief(summary, "dev").splitlines()
    ]
    assert rows[0] == ["system", "nDCG@10", "to a, 95% interval", "RR@10", "R@100", "ms/query"]
    assert rows[2] == ["a", "0.5000", "", "0.2500", "1.0000", "1.2"]
    assert rows[3] == ["b", "0.4000", "-0.1000 [-0.2000, +0.0500]", "0.7500", "0.0000", "-"]
    summary["differences"] = {}
    assert "interval" not in brief(summary, "dev")
