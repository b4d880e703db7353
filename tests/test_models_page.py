"""docs/models.md says of every architecture what the code's own lists and functions say."""

import re
from pathlib import Path

import pytest

from raypipe.errors import InputError
from raypipe.models.bert.family import FAMILY as BERT
from raypipe.models.family import FAMILIES, family_of
from raypipe.models.folder.conventions import POOLINGS
from raypipe.models.folder.layers import ACTIVATIONS
from raypipe.models.relatives.family import RelativeFamily
from raypipe.models.whole.family import DECODERS

PAGE = (Path(__file__).parent.parent / "docs" / "models.md").read_text()
PACKED = {
    id(each) for each in FAMILIES.values() if each is BERT or isinstance(each, RelativeFamily)
}


def rows(title):
    """The cells of the table with this first heading."""
    table = PAGE.split(f"| {title} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in table.splitlines()[2:]]  # fmt: skip


ROWS = {name: cells for cells in rows("model_type") for name in re.findall("`([^`]*)`", cells[0])}


def test_every_family_has_one_line_and_no_other_has_one():
    assert set(ROWS) == set(FAMILIES)
    named = [name for cells in rows("model_type") for name in re.findall("`([^`]*)`", cells[0])]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_line_says_who_computes_and_whether_it_is_trained(kind):
    computed, trained = ROWS[kind][1], ROWS[kind][4]
    assert computed == ("packed" if id(FAMILIES[kind]) in PACKED else "by transformers")
    try:
        FAMILIES[kind].files.trained_names([], head=True)
    except InputError:
        assert trained == "no"
    else:
        assert trained.startswith("all three" if kind == "bert" else "yes")


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if "encoder" in ROWS[kind][2]])
def test_a_line_says_what_a_model_is_used_as(kind):
    expected = {"encoder", "monoBERT", "duoBERT"} if kind == "bert" else {"encoder", "monoBERT"}
    expected = {"encoder"} if kind in DECODERS else expected
    assert set(ROWS[kind][2].split(", ")) == expected
    assert ROWS[kind][3] == "all four" and len(POOLINGS) == 4


def test_a_decoder_scores_nothing_and_has_one_segment():
    for kind in DECODERS:
        with pytest.raises(InputError, match="scores no pairs"):
            FAMILIES[kind].head({}, relevant_label=None)
    segments = {kind for kind, family in FAMILIES.items() if family.files.HAS_SEGMENTS}
    assert "bert" in segments and not segments & {*DECODERS, "roberta", "distilbert"}


def test_the_poolings_and_activations_are_those_of_the_code():
    ordered = PAGE.split("## Pooling")[1]
    assert all(f"`{pooling}`" in ordered for pooling in POOLINGS)
    found = {name.rpartition(".")[2] for name in ACTIVATIONS}
    assert f"`activation_function`: {' or '.join(sorted(found))} " in PAGE


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "electra", "auto_map": {"AutoModel": "own.Model"}},
        {"model_type": "electra", "is_decoder": True},
        {"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]},
    ],
    ids=lambda config: str([*config][-1]),
)
def test_what_the_page_says_of_config_json_is_refused(config):
    assert family_of(config).files.config_problems(config)
    refused = " ".join(cells[0] for cells in rows("what"))
    assert ([*config][-1] if "auto" in str(config) or "is_" in str(config) else "...For") in refused
