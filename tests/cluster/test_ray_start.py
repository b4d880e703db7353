"""Which clusters are refused, decided from hosts and answers alone."""

import json

from raypipe.cluster.ray_start import (
    asks_for_token,
    job_environment,
    open_cluster_problem,
)


def test_a_cluster_on_loopback_alone_needs_no_token():
    assert open_cluster_problem("127.0.0.1:6379", ["127.0.0.1", "::1", "localhost"]) is None


def test_an_open_cluster_that_a_network_reaches_is_refused_with_its_hosts_and_the_remedy():
    problem = open_cluster_problem("10.0.0.5:6379", ["127.0.0.1", "10.0.0.5", "10.0.0.6"])
    assert problem is not None
    assert "10.0.0.5, 10.0.0.6" in problem
    assert "RAY_AUTH_MODE=token" in problem and "--allow-open-cluster" in problem


def test_what_the_cluster_answers_a_stranger_counts_more_than_the_mode_set_here():
    assert asks_for_token(401, "") and asks_for_token(403, "")
    assert not asks_for_token(200, "token")


def test_the_mode_set_here_is_believed_where_the_dashboard_cannot_be_asked():
    assert asks_for_token(None, "token")
    assert not asks_for_token(None, "") and not asks_for_token(None, "disabled")


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
