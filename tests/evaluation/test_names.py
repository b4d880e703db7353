import os
import subprocess
import sys

import pytest

from raypipe.errors import InputError
from raypipe.evaluation.names import counts_in, measures_in, parse_measures


def test_all_bad_names_are_told_at_once_with_the_nearest_known_one():
    names = ["nDGC@10", "mrr@10", "AP@0", "RR(foo=1)@10", "P(rel=0)@5", "AP", "x y", ""]
    with pytest.raises(InputError) as caught:
        parse_measures(names)
    found = caught.value.problems
    assert len(found) == 7
    assert found[0] == "measure 'nDGC@10': unknown; the nearest known one is nDCG@10"
    assert found[1].endswith("nearest known one is MRR@10")
    assert "expected a cutoff from 1 to 1000000; found 0" in found[2]
    assert "unsupported params found: ['foo']" in found[3]
    with pytest.raises(InputError, match="found none"):
        parse_measures([])


def test_names_in_a_text_are_parted_by_blanks_and_commas_but_for_those_within_parentheses():
    given = "AP, nDCG(gains={1: 1, 2: 3})@10 SetP(rel=2, relative=True),SetF(rel=2,beta=2.0)\nmap"
    names = ["AP", "nDCG(gains={1:1,2:3})@10", "SetP(rel=2,relative=True)", "SetF(rel=2,beta=2.0)"]
    assert measures_in(given) == [*names, "map"] == [*parse_measures([*names, "map"])]
    assert measures_in(" , ") == []
    assert measures_in("AP RR(rel=2@10 (x) ") == ["AP", "RR(rel=2@10", "(x)"]


def test_forms_of_other_tools_are_answered_with_ours():
    given = {
        "nDCG@10(rel=2)": "a cutoff comes last, as in nDCG(rel=2)@10",
        "10": "a number alone; trec_eval's P.5,10 is P_5 P_10 here",
        "hit_rate@10": "unknown; the nearest known one is Success@10",
        "accuracy@10": "unknown; the nearest known one is Success@10",
        "Mean_Reciprocal_Rank": "unknown; the nearest known one is RR",
        "alfa_nDCG@10": "unknown; the nearest known one is nDCG@10",  # alpha_nDCG is refused
    }
    with pytest.raises(InputError) as caught:
        parse_measures([*given])
    for problem, told in zip(caught.value.problems, given.values(), strict=True):
        assert told in problem


def test_what_would_end_the_process_or_needs_what_is_not_here_is_refused(tmp_path):
    """trec_eval answers AP@0 with an assertion in C, which no handler would catch."""
    code = "from raypipe.evaluation.names import parse_measures as p\ntry: p(['AP@0', 'P@0'])\n"
    code += "except ValueError: print('refused')\n"
    code += "try: p(['ERR@10', 'RBP(p=0.8)', 'RR(judged_only=True)@10'])\n"
    code += "except ValueError as error: print(error)"
    run = {"capture_output": True, "text": True, "env": {**os.environ, "PATH": str(tmp_path)}}
    done = subprocess.run([sys.executable, "-c", code], **run)
    refused, perl, package, parameters = done.stdout.splitlines()
    assert (done.returncode, refused) == (0, "refused")
    assert perl.startswith("measure 'ERR@10': needs perl, which is not installed")
    assert package.startswith(
        "measure 'RBP(p=0.8)': needs what is not installed; pip install 'ir-measures[trectools]'"
    )
    assert "'RR(judged_only=True)@10': no package of ir_measures computes it with" in parameters


@pytest.mark.parametrize("name", ["RR@0", "RR@1000001", "RR(rel=0)", "P@True", "RR(rel=1000001)"])
def test_cutoffs_and_grades_out_of_range_are_refused(name):
    with pytest.raises(InputError):
        parse_measures([name])


def test_cutoffs_and_grades_at_the_ends_of_their_range_are_taken():
    names = ["RR@1", "RR@1000000", "RR(rel=1)", "P(rel=1000000)@5"]
    assert list(parse_measures(names)) == names


def test_counts_are_told_from_measures_with_a_mean():
    assert counts_in(["NumRel", "nDCG@10", "NumRet", "AP"]) == ["NumRel", "NumRet"]
    assert counts_in(["RR@10"]) == []


def test_a_measure_may_have_its_name_in_trec_eval():
    for theirs, ours in [
        ("map", "AP"),
        ("map_cut_100", "AP@100"),
        ("ndcg", "nDCG"),
        ("ndcg_cut_10", "nDCG@10"),
        ("ndcg_cut.10", "nDCG@10"),
        ("recip_rank", "RR"),
        ("recall_1000", "R@1000"),
        ("P_10", "P@10"),
        ("P.10", "P@10"),
        ("success_5", "Success@5"),
        ("bpref", "Bpref"),
        ("iprec_at_recall_0.10", "IPrec@0.1"),
        ("num_rel_ret", "NumRelRet"),
        ("Rprec", "Rprec"),
    ]:
        assert parse_measures([theirs])[theirs] == parse_measures([ours])[ours]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "ndcg_cut",
            "measure 'ndcg_cut': in trec_eval it stands for 9 measures; name each of them",
        ),
        ("official", "in trec_eval it stands for"),
        ("gm_map", "ir_measures does not compute trec_eval's gm_map"),
        ("recall_0", "expected a cutoff from 1 to 1000000; found 0"),
        ("ndgc_cut_10", "unknown; the nearest known one is"),
        ("P", "trec_eval's like ndcg_cut_10, map, recall_1000"),
    ],
)
def test_a_name_that_is_none_in_trec_eval_either_is_refused(name, told, capsys):
    with pytest.raises(InputError) as caught:
        parse_measures([name])
    assert told in str(caught.value)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", ["alpha_nDCG@10", "ERR_IA@20", "StRecall@5", "NRBP", "AP_IA"])
def test_measures_of_subtopics_are_refused_since_none_are_read(name):
    """pyndeval, where it is installed, would take every judgement as of one subtopic."""
    with pytest.raises(InputError, match="it counts subtopics, the second column"):
        parse_measures([name])


def test_accuracy_is_refused_since_some_queries_have_no_value():
    with pytest.raises(InputError, match="has no value for a query without a relevant passage"):
        parse_measures(["Accuracy@10"])


@pytest.mark.parametrize("name", ["P", "R", "Success", "ERR", "nDCG(dcg='exp-log2')"])
def test_a_measure_without_its_cutoff_is_told_to_have_one(name):
    form = f"{name.partition('(')[0]}@10"
    with pytest.raises(InputError, match=f"expected a cutoff, as in {form}; found none"):
        parse_measures([name])


@pytest.mark.parametrize("gain", ["1000001", "1000000000", "0.5", "True"])
def test_gains_that_are_large_or_no_whole_numbers_are_refused_before_memory_is_taken(gain):
    with pytest.raises(InputError, match="of whole numbers up to 1,000,000, as trec_eval"):
        parse_measures([f"nDCG(gains={{1:{gain}}})@10"])
    parse_measures(["nDCG(gains={1:1000000, 2:1})@10"])
