"""After --until or --only the page tells of the stages that were run, and of no others."""

import pytest

from raypipe.cli.main import run
from raypipe.report.contents import report


@pytest.mark.parametrize(
    "chosen",
    [{"until": "dense"}, {"until": "first"}, {"only": "second"}],
    ids=str,
)
def test_a_section_of_stages_that_were_not_run_is_left_out(analysed, chosen, capsys):
    if "only" in chosen:
        analysed(name="part")
    opened = analysed(name="part", chosen=chosen)
    text = report(opened).read_text()
    assert "<h2>overview: test</h2>" in text and "tradeoff" not in text
    folder = str(opened.workspace.folder)
    assert run(["analyse", "tradeoff", folder])[0] == 2
    assert "expected a duoBERT stage" in capsys.readouterr().err
    assert run(["analyse", "tradeoff", folder, "--fill"])[0] == 2
    assert run(["analyse", "training-size", folder])[0] == 2


def test_a_grid_without_an_aggregation_has_no_time_of_a_pair(analysed):
    """All inputs of the grid were run; no stage that aggregates its pairs was."""
    opened = analysed(name="pairs", chosen={"until": "pairs"})
    assert "ms/query, derived" in report(opened).read_text()
