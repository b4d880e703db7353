from raypipe.driver.sweep.state import Row, Sweep
from raypipe.driver.sweep.table import rows_of_point, short_names, table_of

KEY = "stages.mono.k0"


def row(k0, query_set="dev", system="mono", measures=None, ms=None, inferences=None):
    measures = {"RR@10": 0.25} if measures is None else measures
    return Row({KEY: k0}, f"{KEY}={k0}", query_set, system, 7, measures, ms, inferences)


def sweep(*rows, keys=(KEY,)):
    return Sweep("mine", None, {"first": dict.fromkeys(keys, 1)}, rows)


def test_a_line_for_each_point_and_system_with_the_keys_as_columns():
    found = table_of(
        sweep(
            row(20, system="bm25", ms=1234.56),
            row(20, ms=2.04, inferences=20.0),
            row(50, measures={"RR@10": 0.5, "AP": 1 / 3}, inferences=1050.0),
        )
    )
    assert found.splitlines() == [
        "## dev",
        "",
        "| k0 | system | RR@10  | AP     | n | ms/query | inferences/query |",
        "|----|--------|--------|--------|---|----------|------------------|",
        "| 20 | bm25   | 0.2500 | -      | 7 | 1,234.6  | -                |",
        "| 20 | mono   | 0.2500 | -      | 7 | 2.0      | 20.0             |",
        "| 50 | mono   | 0.5000 | 0.3333 | 7 | -        | 1,050.0          |",
        "",
        "- k0 chosen on these queries is not to be reported on them",
        "- `-` under ms/query: scores of an earlier point or invocation were used",
    ]


def test_what_is_chosen_on_a_query_set_is_to_be_reported_on_another():
    found = table_of(sweep(row(20, ms=1.0), row(20, "test")))
    assert found.count("## ") == 2 and "`-`" not in found and "inferences" not in found
    assert "not to be reported on them, but on others, such as test\n" in found
    assert "not to be reported on them, but on others, such as dev\n" in found


def test_keys_are_short_where_that_says_enough():
    keys = [KEY, "stages.other.k0", "stages.f.k", "leaderboard.system"]
    assert list(short_names(keys).values()) == [KEY, "stages.other.k0", "k", "leaderboard.system"]
    two = Row({KEY: 1, "f.k": 2}, "p", "dev", "s", 1, {}, 1.0, None)
    assert "k0 and k chosen" in table_of(sweep(two, keys=(KEY, "f.k")))
    assert table_of(sweep()) == ""


def test_values_that_would_break_a_table_do_not():
    assert "| a\\|b c " in table_of(sweep(row("a|b\nc", ms=1.0)))


def test_values_are_shown_as_a_recipe_has_them():
    values = [None, True, ["RR@10", "AP"], 0.25, "a b", "2"]
    lines = table_of(sweep(*(row(value, ms=1.0) for value in values))).splitlines()
    shown = [line.split("|")[1].strip() for line in lines if " mono " in line]
    assert shown == ["null", "true", "[RR@10, AP]", "0.25", "a b", "2"]


def test_rows_are_read_from_what_the_invocation_wrote(tmp_path):
    (tmp_path / "measures").mkdir()
    lines = ["query_id\tsystem\tmeasure\tvalue"]
    lines += [f'"{q}\tmono\t{m}\t0.5' for m in ("RR@10", "AP") for q in range(3)]
    lines += [f"{q}\tdocs\tRR@10\t0.5" for q in range(2)]
    (tmp_path / "measures" / "dev.tsv").write_text("\n".join(lines) + "\n")
    told = {"ms_per_query": 1.5, "inferences": 40}
    summary = {
        "measures": {"dev": {"mono": {"RR@10": 0.5, "AP": 0.5}, "docs": {"RR@10": 0.5}}},
        "stages": {"queries@dev": {"rows": 8}},
        "systems": {"dev": {"mono": told, "docs": {"ms_per_query": None}, "unjudged": told}},
    }
    found = rows_of_point({KEY: 5}, "p", tmp_path, summary)
    both = {"RR@10": 0.5, "AP": 0.5}
    assert found == [
        Row({KEY: 5}, "p", "dev", "mono", 3, both, 1.5, 5.0),
        Row({KEY: 5}, "p", "dev", "docs", 2, {"RR@10": 0.5}, None, None),
    ]
