"""Scores of one model in two scales: two stores of one name, and both are kept."""

from recipes import invoke

from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify

RECIPE = """
format: 1
name: scales
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{mono: {{path: {mono}}}}}
stages:
  given: {{do: read, runs: {{test: {folder}/run.trec}}}}
  sure: {{do: score, run: given, model: mono, k0: 5, score: log-probability}}
  probable: {{do: score, run: given, model: mono, k0: 5, score: probability}}
evaluate: {{measures: [RR@10], baseline: given, topics: q, relevance: grade 1}}
resources: {{backend: inline, device: cpu}}
"""


def test_scores_in_two_scales_are_whole_and_kept(invocable):
    folder, small = invocable
    (folder / "run.trec").write_text("".join(f"q1 Q0 p{n} 1 {9 - n} x\n" for n in range(5)))
    text = RECIPE.format(folder=folder, mono=small.models["mono"].path)

    for _ in range(2):  # the second time all is there
        invoke(text, folder / "work")
        work = open_workspace(folder / "work")
        stores = [*folder.glob("work/stores/scores@*.test/*")]
        assert len(stores) == 2 and verify(work) == []
        assert find_garbage(work, spared_seconds=0).names == []
