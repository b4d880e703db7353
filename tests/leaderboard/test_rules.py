import pytest
from small_board import DL, GOOD, SMALL, broken, write

from raypipe.errors import InputError
from raypipe.evaluation.run_files.lines import BLOCK_BYTES
from raypipe.leaderboard import rules
from raypipe.leaderboard.boards import BOARDS, Board
from raypipe.leaderboard.rules import (
    check_lines,
    does_not_apply,
    holds,
    read_run_lines,
    refuse_broken,
)


def test_only_a_broken_rule_refuses():
    refuse_broken([holds("a", "x"), does_not_apply("b", "y")])
    with pytest.raises(InputError) as caught:
        refuse_broken([holds("a", "x"), rules.broken("b", "y"), rules.broken("c", "z")])
    assert caught.value.problems == ["b: y", "c: z"]
    assert (holds("a", "x").applies, rules.broken("a", "x").applies) == (True, True)
    assert not does_not_apply("a", "x").applies and does_not_apply("a", "x").ok


def lines_of(tmp_path, text):
    path = tmp_path / "run"
    path.write_text(text)
    return read_run_lines(path, form="msmarco")


@pytest.mark.fault(47, "a wrong line is named by its number")
def test_the_line_of_a_wrong_separator_is_told_behind_a_first_block_too(tmp_path):
    good = "".join(f"{n:07}\t{n:07}\t1\n" for n in range(BLOCK_BYTES // 18 + 5))
    num = good.count("\n")
    assert len(good) > BLOCK_BYTES
    assert lines_of(tmp_path, good).separators == ""
    found = lines_of(tmp_path, good + "1 2 3\n").separators
    assert found.startswith(f"line {num + 1}: ") and "'1 2 3'" in found
    assert lines_of(tmp_path, "1\t2\t1\n1 3\t2\n").separators.startswith("line 2: ")
    assert lines_of(tmp_path, "1\t2\t1\n1\t3\t2").separators == ""
    assert lines_of(tmp_path, "1\t2\t1.0\n").separators.startswith("line 1: ")
    assert "byte order mark" in lines_of(tmp_path, "\ufeff1\t2\t1\n").separators


def test_a_query_id_with_a_leading_zero_is_another_number_for_the_script(tmp_path):
    padded = GOOD.replace("7\t10\t", "007\t10\t").replace("7\t11\t", "007\t11\t")
    assert padded != GOOD
    findings = check(tmp_path, padded)
    (found,) = [finding for finding in findings if finding.rule == "query ids"]
    assert not found.ok and "1 begin with a zero, first '007'" in found.detail


TREC_LINES = ["1 Q0 10 1 2.5 tag", "1 Q0 11 2 1.5 tag"]


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        (["# made today", *TREC_LINES], 1),  # which trec_eval 10 leaves out
        ([TREC_LINES[0], TREC_LINES[1] + " more"], 2),  # likewise
        ([TREC_LINES[0], "1 0 11 2 1.5 tag"], 2),
        ([TREC_LINES[0], "1 Q0 11 2.0 1.5 tag"], 2),
        (TREC_LINES, None),
        (["\t".join(line.split()) + "\r" for line in TREC_LINES], None),
        ([TREC_LINES[0], "", TREC_LINES[1], ""], None),
    ],
)
def test_a_line_that_trec_eval_reads_and_the_tracks_scripts_refuse_breaks_the_format(
    tmp_path, lines, at
):
    path = write(tmp_path / "run", "\n".join(lines) + "\n")
    findings = check_lines(read_run_lines(path, form="trec"), BOARDS["trec-dl"])
    assert broken(findings) == (["file format"] if at else [])
    assert not at or f": line {at}: expected `query Q0 passage" in findings[0].detail
    of_msmarco = read_run_lines(path, form="msmarco")
    assert of_msmarco.separators == "" and of_msmarco.tags == ("tag",)


def test_the_first_three_tags_are_kept(tmp_path):
    rows = [f"1 Q0 p{n} {n} {-n} t{n % 5}" for n in range(1, 12)]
    assert lines_of(tmp_path, "\n".join(rows) + "\n").tags == ("t1", "t2", "t3")
    assert lines_of(tmp_path, "1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n").tags == ("x",)


def test_rankings_of_lines_are_by_rank_within_each_query(tmp_path):
    run = lines_of(tmp_path, "2\ta\t2\n1\tc\t1\n2\tb\t1\n1\td\t2\n")
    assert run.rankings() == {"2": ["b", "a"], "1": ["c", "d"]}
    assert run.query_ids == ["2", "1"]


def check(tmp_path, text, board=SMALL, **options):
    return check_lines(
        read_run_lines(write(tmp_path / "run", text), form=board.form), board, **options
    )


def test_a_good_run_breaks_no_rule_and_what_does_not_apply_is_told(tmp_path):
    findings = check(tmp_path, GOOD)
    assert broken(findings) == []
    assert {f.rule for f in findings if not f.applies} == {"scores", "tag"}


@pytest.mark.fault(47, "12 of 12 broken rules are told")
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("7\t10\t1", "7\t10\t0"), "ranks"),
        (("7\t12\t3", "7\t12\t4"), "ranks"),
        (("7\t11\t2", "7\t10\t2"), "repeated passages"),
        (("7\t11\t2", "7 11 2"), "file format"),
        (("7\t11\t2", "7\t11\t2.0"), "file format"),
        (("7\t11\t2", "\n7\t11\t2"), "file format"),
        (("\t99\t", "\t9\u0669\t"), "passage ids"),
        (("\t99\t", "\t100\t"), "passage ids"),
        (("\t99\t", "\t099\t"), "passage ids"),
        (("\t99\t", "\tD99\t"), "passage ids"),
        (("9\t99\t3\n", "9\t99\t3\n9\t98\t4\n"), "depth"),
        (("9\t99\t3\n", ""), "rows"),
    ],
)
def test_each_broken_rule_is_the_one_that_is_told(tmp_path, change, rule):
    assert broken(check(tmp_path, GOOD.replace(*change))) == [rule]


def test_query_ids_are_whole_numbers_of_the_query_set(tmp_path):
    assert "query ids" in broken(check(tmp_path, GOOD.replace("9\t", "q\t")))
    assert broken(check(tmp_path, GOOD.replace("9\t", "8\t"), queries=["7", "9"])) == ["query set"]
    assert broken(check(tmp_path, GOOD, queries=["9", "7"])) == []
    assert broken(check(tmp_path, GOOD, query_set="eval")) == ["query set"]


def test_fewer_rows_may_be_allowed(tmp_path):
    assert broken(check(tmp_path, GOOD.replace("9\t99\t3\n", ""), fewer_rows=True)) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ((" 2.0 ", " 2.5 "), ["scores"]),
        ((" 2.0 ", " 2.499999999 "), ["scores"]),  # equal in float32
        ((" 2.0 a", " 2.0 b"), ["tag"]),
        (("_6 2 ", "_6 3 "), ["ranks"]),
        (("msmarco_passage_01_6", "x6"), ["passage ids"]),
        (("msmarco_passage_01_6", "msmarco_passage_01_5"), None),
    ],
)
def test_trec_dl_wants_falling_scores_one_tag_and_its_ids(tmp_path, change, rule):
    found = broken(check(tmp_path, DL.replace(*change), BOARDS["trec-dl"]))
    assert found == (rule or ["repeated passages"])


@pytest.mark.parametrize(
    ("tag", "is_taken"), [("x" * 25, True), ("a_B-9", True), ("x" * 26, False), ("v1.2", False)]
)
def test_trec_dl_takes_the_tags_that_its_script_of_2022_takes(tmp_path, tag, is_taken):
    lines = DL.replace(" a\n", f" {tag}\n")
    assert lines.count(tag) == DL.count("\n")
    assert broken(check(tmp_path, lines, BOARDS["trec-dl"])) == ([] if is_taken else ["tag"])
    assert broken(check(tmp_path, lines, BOARDS["trec-rag"])) == ["passage ids"]


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_score_that_is_no_finite_number_is_named_as_such(tmp_path, number):
    findings = check(tmp_path, DL.replace(" 2.0 ", f" {number} "), BOARDS["trec-rag"])
    (scores,) = [finding for finding in findings if finding.rule == "scores"]
    assert "1 are no finite float32 numbers; first: query " in scores.detail


def test_trec_dl_of_v2_takes_100_rows_and_of_v1_1000(tmp_path):
    def rows(count, name):
        return "".join(f"1 Q0 {name}{n} {n + 1} {-n} a\n" for n in range(count))

    board = BOARDS["trec-dl"]
    assert broken(check(tmp_path, rows(101, "msmarco_passage_01_"), board)) == ["depth"]
    assert broken(check(tmp_path, rows(1000, ""), board)) == []
    assert broken(check(tmp_path, rows(1001, ""), board)) == ["depth"]


def test_trec_car_takes_its_query_and_paragraph_ids(tmp_path):
    line = f"enwiki:A%20b/C%20d Q0 {'0a' * 20} 1 1.0 x\n"
    assert broken(check(tmp_path, line, BOARDS["trec-car"])) == []
    assert broken(check(tmp_path, line.replace("0a", "0g"), BOARDS["trec-car"])) == ["passage ids"]


def test_a_wrong_rank_is_named_by_its_line_in_a_file_of_any_order(tmp_path):
    lines = "7\t10\t1\n8\t10\t1\n7\t11\t3\n8\t11\t2\n"
    (found,) = [f for f in check(tmp_path, lines) if f.rule == "ranks"]
    assert "query 7, line 3: rank 3 in place of 2" in found.detail


OWN = Board(task="small", form="msmarco", depths={"[0-9]+": 2}, num_passages=50, full_rows=True)


def by_rule(tmp_path, text, board, **options):
    found = check_lines(read_run_lines(write(tmp_path / "run", text)), board, **options)
    return {finding.rule: finding for finding in found}


def test_ids_are_below_the_number_of_passages_without_leading_zeros(tmp_path):
    assert by_rule(tmp_path, "1\t0\t1\n1\t49\t2\n", OWN)["passage ids"].ok
    for bad in ("50", "07", "00"):
        found = by_rule(tmp_path, f"1\t1\t1\n1\t{bad}\t2\n", OWN)["passage ids"]
        assert not found.ok and f"first '{bad}'" in found.detail and "1 ids" in found.detail


@pytest.mark.parametrize("depths", [{}, {".*": None}])
def test_numbered_ids_need_no_pattern_and_other_ids_are_told(tmp_path, depths):
    board = Board(task="own", depths=depths, num_passages=50)
    assert by_rule(tmp_path, "1\t49\t1\n", board)["passage ids"].ok
    for bad in ("d7", "-1", "+1", "1.0", "\u0661", "9" * 5000):
        told = by_rule(tmp_path, f"1\t1\t1\n1\t{bad}\t2\n", board)["passage ids"]
        assert not told.ok and "1 ids are not in the collection of 0 to 49" in told.detail
        assert len(told.detail) < 200


def test_rows_are_at_most_and_at_least_the_depth(tmp_path):
    one, two = "1\t1\t1\n", "1\t1\t1\n1\t2\t2\n"
    three = two + "1\t3\t3\n"
    found = [by_rule(tmp_path, text, OWN) for text in (one, two, three)]
    assert [each["depth"].ok for each in found] == [True, True, False]
    assert [each["rows"].ok for each in found] == [False, True, True]
    assert "query 1 with 3" in found[2]["depth"].detail
    assert "query 1 with 1" in found[0]["rows"].detail
    assert by_rule(tmp_path, one, OWN, fewer_rows=True)["rows"].ok
