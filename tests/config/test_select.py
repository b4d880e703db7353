import pytest

from raypipe.config.load import load_recipe
from raypipe.config.recipe import select
from raypipe.errors import InputError


def test_all_stages_run_in_the_order_of_the_recipe(text: str):
    assert select(load_recipe(text)) == ["lucene", "embeddings", "bm25", "dense", "fused"]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("lucene", ["lucene"]),
        ("dense", ["embeddings", "dense"]),
        ("bm25", ["lucene", "bm25"]),
        ("fused", ["lucene", "embeddings", "bm25", "dense", "fused"]),
    ],
)
def test_until_is_what_the_stage_needs(text: str, until: str, expected: list[str]):
    assert select(load_recipe(text), until=until) == expected


def test_an_unknown_stage_is_told_with_the_nearest(text: str):
    with pytest.raises(InputError, match="--until: no stage 'bm52'; did you mean bm25?"):
        select(load_recipe(text), until="bm52")
