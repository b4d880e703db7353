"""What stands in the environment as a secret is found nowhere afterwards."""

import logging

import pytest
from small_invocation import Watching

from raypipe.cli.main import run
from raypipe.driver.pipeline import Options, run_pipeline

SECRETS = {
    "RAY_AUTH_TOKEN": "canary-of-ray-0123456789abcdef",
    "AWS_ACCESS_KEY_ID": "AKIACANARY0123456789",
    "AWS_SECRET_ACCESS_KEY": "canary-of-aws-0123456789abcdef",
    "GOOGLE_APPLICATION_CREDENTIALS": "/canary-of-google/key.json",
    "HF_TOKEN": "hf_canary0123456789",
}


@pytest.mark.fault(
    42, "5 secrets of the environment: 0 in files and output of a success and a failure"
)
def test_no_secret_of_the_environment_is_written_or_said(invocable, monkeypatch, capfd, caplog):
    folder, recipe = invocable
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    said = []
    with caplog.at_level(logging.DEBUG):
        run_pipeline(recipe, folder / "w", Options(), watcher=Watching(), say=said.append)
        code, reason = run(["status", str(folder / "w")])
        assert code == 0
        failed, why = run(["pipeline", "none.yaml", "--out", str(folder / "w")])
        assert failed == 2
    out, err = capfd.readouterr()
    told = "\n".join([*said, str(reason), str(why), out, err, caplog.text]).encode()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 30 and b"none.yaml" in told
    contents = [told, *(path.read_bytes() for path in files)]
    found = [value for value in SECRETS.values() if any(value.encode() in c for c in contents)]
    assert found == []
