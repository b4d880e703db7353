import pytest

from raypipe.kinds.registry import KINDS


def test_a_wrong_value_is_told_by_line_key_expected_and_found(text: str, problems):
    for old, new, expected in [
        ("format: 1", "format: 2", "line 1: format: expected 1; found 2"),
        ("name: tiny\n", "", "line 1: name: missing; it has no default"),
        (
            "name: tiny",
            "name: 7",
            'line 2: name: expected text; found 7; quote it to make it text: "..."',
        ),
        (
            "name: tiny",
            "name: Tiny.1",
            "line 2: name: expected a name of at most 64 lower-case letters,"
            " digits and hyphens, the first no hyphen; found text 'Tiny.1'",
        ),
        (
            "input: collection.tsv",
            "input: s4://b/c",
            "line 3: collection.input.0: expected a path or a URI that begins with file://,"
            " s3:// or gs://; found text 's4://b/c'",
        ),
        (
            "input: collection.tsv",
            "input: [~/c.tsv]",
            "line 3: collection.input.0: expected a path without ~ (write ${HOME} for the"
            " home folder); found text '~/c.tsv'",
        ),
        (
            "input: collection.tsv",
            "inptu: collection.tsv",
            "line 3: collection.inptu: unknown key; did you mean input? known here: format, input,"
            " fields, split, errors, max_passages",
        ),
        (
            "report: false",
            "report: 0",
            "line 5: queries.dev.report: expected true or false; found 0",
        ),
        (
            "models:\n",
            "models: [x]\nmodels2:\n",
            "line 7: models: expected a mapping, KEY: VALUE; found a list",
        ),
        (
            "{path: minilm}",
            "",
            "line 8: models.encoder: expected a mapping, KEY: VALUE; found nothing",
        ),
        (
            "{path: minilm}",
            "{path: org/model, digest: abc}",
            "line 8: models.encoder.digest: unknown key; known here: path, revision, branch, "
            "preset, settings",
        ),
        (
            "lucene:     {do: index}",
            "lucene: {do: index, depth: 3}",
            "line 10: stages.lucene.depth: unknown key; known here: do, language, embeddings",
        ),
        (
            "lucene:     {do: index}",
            "lucene: {do: indx}",
            "line 10: stages.lucene.do: unknown kind of stage text 'indx'; did you mean index?"
            f" known: {', '.join(sorted(KINDS))}",
        ),
        (
            "do: fuse,",
            "",
            f"line 14: stages.fused.do: missing; expected one of {', '.join(sorted(KINDS))}",
        ),
        (
            "method: rrf",
            "method: rff",
            "line 14: stages.fused.method: expected 'alternate', 'rrf', 'weighted' or 'average';"
            " found text 'rff'; did you mean rrf?",
        ),
        (
            "method: rrf",
            "method: rrf, depth: 0",
            "line 14: stages.fused.depth: expected a number from 1; found 0",
        ),
        (
            "method: rrf",
            "method: rrf, depth: 1.5",
            "line 14: stages.fused.depth: expected a whole number; found 1.5",
        ),
        ("[bm25, dense]", "[]", "line 14: stages.fused.runs: expected at least 1; found 0"),
        (
            "[bm25, dense]",
            "bm25",
            "line 14: stages.fused.runs: expected a list, such as [a, b]; found text 'bm25'",
        ),
        (
            "index: lucene}",
            "index: lucene, bm25: {k1: 1e-1, b: 0}}",
            "line 12: stages.bm25.bm25.k1: expected a number; found text '1e-1'; YAML reads"
            " 1e-1 as text: write 0.1",
        ),
        (
            "index: lucene}",
            "index: lucene, bm25: {k1: 2e-5, b: 0}}",
            "line 12: stages.bm25.bm25.k1: expected a number; found text '2e-5'; YAML reads"
            " 2e-5 as text: write 2.0e-05",
        ),
        (
            "index: lucene}",
            "index: lucene, bm25: {k1: .nan, b: 0}}",
            "line 12: stages.bm25.bm25.k1: expected a finite number; found nan",
        ),
        (
            "index: lucene}",
            "index: lucene, bm25: {b: 68}}",
            "line 12: stages.bm25.bm25.b: expected a number up to 1; found 68",
        ),
        (
            "index: lucene}",
            "index: lucene, bm25: {k: 1}}",
            "line 12: stages.bm25.bm25.k: unknown key; did you mean k1? known here: k1, b, tune",
        ),
        (
            "index: lucene}",
            "index: lucene, bm25: {tune: {x: 1, queries: dev, measure: AP, k1: [1], b: [0]}}}",
            "line 12: stages.bm25.bm25.tune.x: unknown key; known here: queries, measure, k1, b",
        ),
        (
            "nDCG@10",
            "nDCG at 10",
            "line 15: evaluate.measures.0: expected a measure such as nDCG@10,"
            " AP(rel=2), RR(rel=2)@10 or ndcg_cut_10; found text 'nDCG at 10'",
        ),
        (
            "evaluate:",
            "resources: {gpus: 0}\nevaluate:",
            "line 15: resources.gpus: expected all or a whole number from 1; found 0",
        ),
        (
            "evaluate:",
            "resources: {threads: true}\nevaluate:",
            "line 15: resources.threads: expected auto or a whole number from 1; found true",
        ),
        (
            "evaluate:",
            "stores: 2026-11-20\nevaluate:",
            "line 15: stores: expected text; found 2026-11-20, which YAML reads as a"
            " date: quote it",
        ),
    ]:
        assert old in text
        assert (
            problems(text.replace(old, new, 1), source="a.yaml")[0].removeprefix("a.yaml: ")
            == expected
        )


@pytest.mark.parametrize("recipe", ["", "- a\n- b\n", "just text", "3"])
def test_what_is_no_mapping_is_told_so(problems, recipe: str):
    (problem,) = problems(recipe, source="a.yaml")
    assert problem.startswith("a.yaml: line 1: expected a mapping, KEY: VALUE; found ")


def test_numbers_too_long_to_print_are_told(text: str, problems):
    huge = f"depth: 0x{'f' * 5000}"
    k, depth = problems(text.replace("method: rrf", f"method: rrf, k: 0x{'f' * 5000}, {huge}"))
    assert depth.endswith("up to 1e+12; found a number of thousands of digits")
    assert k.endswith("found a number of thousands of digits")


def test_every_problem_is_told_at_once_from_top_to_bottom(problems):
    found = problems(
        """\
format: 1
name: many
collection: {format: tsv, input: c.tsv}
queries: {dev: {file: q.tsv, reprot: true}}
stages:
  lucene: {do: index, x: 1}
  dense:  {do: search, index: embeddings, depth: none}
  mono:   {do: score, run: dense}
  fused:  {do: fuse, runs: [dense, fuse, lucene], method: max}
evaluate: {measures: [AP, AP], baseline: bm52}
""",
        source="a.yaml",
    )
    heads = [problem.split(": ")[1:3] for problem in found]
    assert heads == [
        ["line 3", "collection.format"],
        ["line 4", "queries.dev.reprot"],
        ["line 6", "stages.lucene.x"],
        ["line 7", "stages.dense.depth"],
        ["line 7", "stages.dense.index"],
        ["line 8", "stages.mono.model"],
        ["line 9", "stages.fused.method"],
        ["line 9", "stages.fused.runs.1"],
        ["line 9", "stages.fused.runs.2"],
        ["line 10", "evaluate.measures"],
        ["line 10", "evaluate.baseline"],
    ]
    assert not any("pydantic" in problem or "Input should" in problem for problem in found)


def test_the_kinds_are_those_of_the_union(text: str, problems):
    (problem,) = problems(text.replace("{do: index}", "{do: x}"))[:1]
    assert problem.endswith("known: " + ", ".join(sorted(KINDS)))
