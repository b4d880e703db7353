"""LaTeX without a TeX: its braces, its columns and its characters are read here."""

import re
from dataclasses import replace

import pytest
from results_by_hand import by_hand

from raypipe.evaluation.tables import escaped, latex


def lines_of(text):
    """The rows of the tabular, as cells."""
    body = text[text.index("\\toprule") : text.index("\\bottomrule")]
    rows = [line.strip() for line in body.splitlines() if line.strip().endswith("\\\\")]
    return [re.split(r" (?<!\\)& ", row.removesuffix(" \\\\")) for row in rows]


def check(text):
    """Braces and environments are closed in turn, and rows have as many cells as columns."""
    open_environments, depth = [], 0
    for token in re.findall(r"\\(?:begin|end)\{\w+\}|\\.|[{}%\n]", text):
        if token.startswith("\\begin"):
            open_environments.append(token[7:-1])
        elif token.startswith("\\end"):
            assert open_environments.pop() == token[5:-1]
        else:
            depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert not depth and not open_environments
    for columns, part in zip(
        re.findall(r"\\begin\{tabular\}\{(\w+)\}", text),
        text.split("\\begin{table}")[1:],
        strict=True,
    ):
        assert {len(row) for row in lines_of(part)} == {len(columns)}


def test_rows_are_systems_with_bold_best_values_and_marks():
    text = latex([by_hand()])
    check(text)
    assert lines_of(text) == [
        ["System", "RR(rel=2)@10", "NumRet", "ms/query", "inferences/query", "computed/query"],
        ["bm25", "0.2500", "40.0000", "--", "--", "--"],
        # As good as the best to the digits shown; p 0.0499 is below the level, 0.05 is not.
        ["mono\\_a", r"\textbf{0.5000}\rlap{$^{\dagger}$}", "30.0000", "12.3", "40.0", "40.0"],
        ["duo", r"\textbf{0.5000}", "30.0000", "--", "1,060.0", "--"],
        ["worse", r"0.1250\rlap{$^{\ddagger}$}", "50.0000", "--", "--", "--"],
    ]
    for word in ("booktabs", "\\midrule", "\\centering", "\\label{tab:re-cipe-dev}"):
        assert word in text


def test_the_caption_names_topics_weights_test_correction_and_level():
    (caption,) = re.findall(r"\\caption\{(.*)\}\n", latex([by_hand()]))
    assert caption == (
        r"re\_cipe on dev: 7 topics; relevant: grade 2 \& 3; the start weights of m\#1 saw a\_b. "
        r"Bold: the highest value of a measure. $^{\dagger}$ and $^{\ddagger}$: significantly "
        r"better and worse than bm25 (paired two-sided randomisation test over topics, $p < 0.05$ "
        r"after Holm's correction over the 3 comparisons of this table). Inferences/query: what a "
        r"system needs alone; computed/query: those computed for it, as systems share scores."
    )


def test_without_a_baseline_or_a_reranker_nothing_is_said_of_them():
    text = latex([by_hand(baseline=None, costs={}), by_hand("test")])
    check(text)
    first, second = text.split("\\end{table}\n")[:2]
    assert "dagger" not in first and "Holm" not in first and "nferences" not in first
    assert "\\textbf{0.5000}" in first and "dagger" in second and "on test" in second


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b & 50% #1 $2 {x}", r"a\_b \& 50\% \#1 \$2 \{x\}"),
        ("\\~^", r"\textbackslash{}\textasciitilde{}\textasciicircum{}"),
        ("a<b>c|d [e]", r"a\textless{}b\textgreater{}c\textbar{}d {[}e{]}"),
        (' one\n\ntwo "x" ', "one two ''x''"),
    ],
)
def test_characters_of_latex_are_escaped(text, expected):
    assert escaped(text) == expected


def test_the_caption_names_what_several_models_saw_first_once():
    first = "a_b and more"
    saws = {"minilm": first, "mono": f"{first}; then c (mono)",
            "duo": f"{first}; then c (mono); then d (duo)", "other": "e; then f"}  # fmt: skip
    table = by_hand(baseline=None, costs={})
    rows = [replace(row, model=model, start_weights_saw=saw)
            for row, (model, saw) in zip(table.rows, saws.items(), strict=True)]  # fmt: skip
    (caption,) = re.findall(r"\\caption\{(.*)\}\n", latex([replace(table, rows=rows)]))
    assert caption == (
        r"re\_cipe on dev: 7 topics; relevant: grade 2 \& 3; the start weights of minilm and mono "
        r"and duo saw a\_b and more; those of mono then c (mono); those of duo then c (mono); then "
        r"d (duo); the start weights of other saw e; those of other then f. "
        r"Bold: the highest value of a measure."
    )
