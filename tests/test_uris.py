"""A secret in a URI reaches neither recipe.yaml nor a message."""

import pytest

from raypipe.config.load import load_recipe, load_training
from raypipe.errors import InputError
from raypipe.storage.root import open_storage
from raypipe.uris import has_secret, redacted

SECRETS = [
    "s3://AKIA:HUSH@bucket/stores",
    "s3://AKIA:se/HUSH@bucket/stores",
    "s3://HUSH@bucket",
    "gs://bucket/stores?token=HUSH",
    "http://me:HUSH@host/x",
]
PLAIN = ["s3://bucket/a@b", "gs://bucket/x?y", "/a@b:c=d", "file:///a:b@c?d=e", "s3://host:9000/b"]


def test_credentials_are_seen_and_names_of_objects_are_none():
    assert [has_secret(uri) for uri in SECRETS] == [True] * len(SECRETS)
    assert [has_secret(uri) for uri in PLAIN] == [False] * len(PLAIN)
    assert redacted("stores: s3://A:b/c@d/e, found") == "stores: s3://...@d/e, found"
    assert redacted("found 'gs://b/x?token=y'") == "found 'gs://b/x?...'"
    assert redacted("s3://bucket/x and me@home") == "s3://bucket/x and me@home"


@pytest.mark.fault(42, "5 secrets in URIs, given in 6 ways: refused, and 0 repeated")
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("how", ["recipe", "variable", "override", "typo", "training", "storage"])
def test_a_secret_is_refused_and_not_repeated(secret, how):
    text = "format: 1\nname: mine\ncollection: {format: msmarco-v1, input: x}\nstages: {}\n"
    with pytest.raises(InputError) as caught:
        if how == "recipe":
            load_recipe(f"{text}stores: '{secret}'\n")
        elif how == "variable":
            load_recipe(f"{text}stores: ${{PLACE}}\n", env={"PLACE": secret})
        elif how == "override":
            load_recipe(text, overrides=[f"stores={secret}"])
        elif how == "typo":
            load_recipe(text, overrides=[f"storse={secret}", f"resources.storse={secret}"])
        elif how == "training":
            load_training(f"format: 1\nname: mine\nstores: '{secret}'\n")
        else:
            open_storage(secret)
    assert "HUSH" not in str(caught.value) and "AKIA" not in str(caught.value)
    if not secret.startswith("http") and how != "typo":
        assert "AWS_SECRET_ACCESS_KEY" in str(caught.value)
