"""A monoT5 model by its name on a hub."""

import pytest
from stage_inputs import parts_of
from tiny_t5 import make_tiny_t5

from raypipe.driver.models import unfit
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_scorer

NAME = "acme/tiny-monot5"


@pytest.fixture
def repository(tmp_path):
    """As published: no raypipe.json, and a sentencepiece model beside the tokenizer."""
    make_tiny_t5(tmp_path / "repository")
    (tmp_path / "repository" / "raypipe.json").unlink()
    (tmp_path / "repository" / "spiece.model").write_bytes(b"pieces")
    return tmp_path / "repository"


def test_it_is_fetched_with_its_sentencepiece_model_and_scores_as_the_folder(hub, repository):
    commit = hub.push(NAME, repository)
    uri = f"hf://{NAME}@{commit}"
    found, plain = (resolve_model(str(each), "monot5") for each in (uri, repository))
    names = {path.name for path in found.folder.iterdir()}
    assert {"model.safetensors", "spiece.model", "tokenizer.json"} <= names
    assert unfit(found) == [] and found.of_hub == f"{NAME}@{commit}"
    query, passage = parts_of(plain, ["the lease"], ["a zebra"])
    scores = [load_scorer(model).score(query, [passage]) for model in (found, plain)]
    assert scores[0] == scores[1]
    with pytest.raises(InputError, match="name the preset monot5 or duot5"):
        resolve_model(uri)


def test_a_pickle_alone_is_refused_with_the_command_that_converts_it(hub, repository):
    (repository / "model.safetensors").rename(repository / "pytorch_model.bin")
    commit = hub.push(NAME, repository)
    with pytest.raises(InputError, match="pytorch_model.bin: pickles.*raypipe model convert"):
        resolve_model(f"hf://{NAME}@{commit}")
