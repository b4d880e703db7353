import pytest
from training_body import recipe

from raypipe.driver.training import sets
from raypipe.driver.training.sets import with_ids
from raypipe.errors import InputError


def test_triples_of_texts_are_split_once_and_anew_when_they_change(tmp_path, monkeypatch):
    texts = tmp_path / "t.tsv"
    texts.write_text("a query\tyes\tno\na query\tno\tother\n")
    given = {"train": {"c": {"texts": str(texts)}}}
    split = []
    whole = sets.split_triples
    monkeypatch.setattr(sets, "split_triples", lambda *args: (split.append(args), whole(*args)))
    for _ in range(2):
        found = with_ids(recipe(**given), tmp_path / "w")
        own = tmp_path / "w" / "c"
        wanted = found.train["c"]
        assert (wanted.texts, wanted.collection) == (None, "c")
        assert (wanted.queries, wanted.triples) == (
            str(own / "queries.tsv"),
            str(own / "triples.tsv"),
        )
        assert found.collections["c"].input == (str(own / "passages.tsv"),)
        assert found.train["a"] == recipe().train["a"] and len(found.collections) == 3
    assert len(split) == 1
    assert (own / "triples.tsv").read_text() == "0\t0\t1\n0\t1\t2\n"
    texts.write_text("b query\tyes\tno\n")
    with_ids(recipe(**given), tmp_path / "w")
    assert len(split) == 2 and (own / "queries.tsv").read_text() == "0\tb query\n"
    texts.write_text("torn\n")
    with pytest.raises(InputError):
        with_ids(recipe(**given), tmp_path / "w")
    assert not (own / "made-from.json").exists()  # what stands is of no file now
