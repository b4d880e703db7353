"""The environment of a job's workers."""

import json

from raypipe.cluster.ray_start import job_environment


def test_what_a_job_was_submitted_with_is_not_set_a_second_time(monkeypatch):
    config = json.dumps({"runtime_env": {"env_vars": {"RAY_DEDUP_LOGS": "1", "OTHER": "x"}}})
    every = job_environment()
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", config)
    assert job_environment() == {k: v for k, v in every.items() if k != "RAY_DEDUP_LOGS"}
    for nothing in ("", '{"metadata": {}}', '{"runtime_env": {}}'):
        monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", nothing)
        assert job_environment() == every
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR")
    assert job_environment() == every


def test_workers_get_the_mode_of_matrix_products_that_this_process_has_or_else_strict(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "AVX2,STRICT")
    assert job_environment()["MKL_CBWR"] == "AVX2,STRICT"
    monkeypatch.delenv("MKL_CBWR")
    assert job_environment()["MKL_CBWR"] == "AUTO,STRICT"
    assert job_environment()["RAY_USAGE_STATS_ENABLED"] == "0"
