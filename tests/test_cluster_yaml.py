"""cluster.yaml against Ray's own schema and defaults, and against what the project pins."""

import copy
import re
import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
CLUSTER = yaml.safe_load((ROOT / "cluster.yaml").read_text())
NODES = CLUSTER["available_node_types"]
HEAD = NODES[CLUSTER["head_node_type"]]
WORKERS = {name: node for name, node in NODES.items() if name != CLUSTER["head_node_type"]}


def container_variables() -> dict[str, str]:
    """What every process in a node's container finds in its environment."""
    options = [shlex.split(option) for option in CLUSTER["docker"]["run_options"]]
    return dict(words[1].split("=", 1) for words in options if words[0] == "-e")


def start_command(commands: list[str]) -> list[str]:
    (found,) = [c for c in commands if c.startswith("ray start")]
    return shlex.split(found)


def prepared(cluster: dict[str, object]) -> dict[str, object]:
    """With Ray's defaults for the provider filled in, as `ray up` does before it validates."""
    from ray.autoscaler._private.util import prepare_config

    return prepare_config(copy.deepcopy(cluster))


def test_rays_own_schema_takes_it_and_refuses_an_unknown_key():
    from jsonschema import ValidationError
    from ray.autoscaler._private.util import validate_config

    validate_config(prepared(CLUSTER))
    for path in ((), ("docker",), ("auth",), ("available_node_types", "gpu_spot")):
        broken = prepared(CLUSTER)
        place = broken
        for key in path:
            place = place[key]
        place["no_such_key"] = 1
        with pytest.raises(ValidationError, match="no_such_key"):
            validate_config(broken)


def test_every_default_of_ray_that_would_change_a_node_is_replaced():
    """Ray's defaults for AWS install a nightly Ray and bind the dashboard to every interface."""
    whole = prepared(CLUSTER)
    for key in ("setup_commands", "head_start_ray_commands", "worker_start_ray_commands"):
        assert whole[key] == CLUSTER[key]
    assert whole["head_setup_commands"] == CLUSTER["setup_commands"]
    assert set(whole["available_node_types"]) == {"head", "gpu_spot", "gpu_on_demand"}
    assert "0.0.0.0" not in yaml.safe_dump(whole)


def test_the_image_has_the_ray_that_the_project_pins_and_is_tested_with_and_its_python():
    image = re.fullmatch(r"rayproject/ray:(\d+\.\d+\.\d+)-py(\d)(\d+)-cu\d+", image_of_all())
    assert image is not None, "an exact version, a Python and CUDA"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = [r for r in map(Requirement, project["dependencies"]) if r.name == "ray"]
    assert image[1] in pin.specifier
    assert image[1] == version("ray")
    python = f"{image[2]}.{image[3]}"
    assert python in SpecifierSet(project["requires-python"])
    assert f"python{python} -m venv" in (ROOT / "README.md").read_text()


def image_of_all() -> str:
    docker = CLUSTER["docker"]
    assert not {"head_image", "worker_image"} & set(docker)
    assert not any("docker" in node for node in NODES.values())
    return docker["image"]


def test_the_head_has_cpus_and_no_gpu_and_both_gpu_groups_start_empty():
    assert HEAD["resources"]["CPU"] >= 1 and "GPU" not in HEAD["resources"]
    assert set(WORKERS) == {"gpu_spot", "gpu_on_demand"}
    for node in WORKERS.values():
        assert node["resources"]["GPU"] >= 1
        assert node["min_workers"] == 0 < node["max_workers"] <= CLUSTER["max_workers"]


def test_one_group_is_spot_and_is_tried_first_and_each_is_labelled_as_what_it_is():
    market = {n: node["node_config"].get("InstanceMarketOptions") for n, node in NODES.items()}
    spot = {"MarketType": "spot"}
    assert market == {"head": None, "gpu_spot": spot, "gpu_on_demand": None}
    assert NODES["gpu_spot"]["priority"] > NODES["gpu_on_demand"]["priority"]
    labels = {name: node["labels"]["ray.io/market-type"] for name, node in NODES.items()}
    assert labels == {"head": "on-demand", "gpu_spot": "spot", "gpu_on_demand": "on-demand"}


def test_no_port_is_opened():
    """Ray adds rules of its own, port 22 for everyone among them, to a group that it picks."""
    assert "security_group" not in CLUSTER["provider"]
    for node in NODES.values():
        assert node["node_config"]["SecurityGroupIds"]
        assert "NetworkInterfaces" not in node["node_config"]
    assert CLUSTER["provider"]["use_internal_ips"] is True
    proxy = CLUSTER["auth"]["ssh_proxy_command"]
    assert f"aws ssm start-session --region {CLUSTER['provider']['region']} " in proxy
    start = start_command(CLUSTER["head_start_ray_commands"])
    assert "--dashboard-host=127.0.0.1" in start
    options = [shlex.split(option) for option in CLUSTER["docker"]["run_options"]]
    assert not {word for words in options for word in words} & {"-p", "-P", "--publish"}


def test_the_token_reaches_every_node_before_ray_starts_there():
    variables = container_variables()
    assert variables["RAY_AUTH_MODE"] == "token"
    assert "RAY_AUTH_TOKEN" not in variables, "a token in this file would be in its history"
    token = variables["RAY_AUTH_TOKEN_PATH"]
    assert CLUSTER["file_mounts"][token] == "~/.ray/auth_token"
    assert not {"head_run_options", "worker_run_options"} & set(CLUSTER["docker"])
    run = docker_run()
    assert "RAY_AUTH_MODE=token" in run and f"RAY_AUTH_TOKEN_PATH={token}" in run
    assert any(word.endswith(f":{token}") for word in run), "mounted when the container starts"


def test_ray_up_finds_what_is_mounted_and_stops_where_the_token_was_not_made(tmp_path, monkeypatch):
    """Paths are of the folder that `ray up` is run in and of the home folder."""
    from ray.autoscaler._private.util import hash_runtime_conf

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "raypipe-0.2.0-py3-none-any.whl").write_bytes(b"a wheel")
    with pytest.raises(FileNotFoundError, match="auth_token"):
        hash_runtime_conf(CLUSTER["file_mounts"], [], [])
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("a token")
    _, before = hash_runtime_conf(CLUSTER["file_mounts"], [], ["1"], True)
    (tmp_path / "dist" / "raypipe-0.2.0-py3-none-any.whl").write_bytes(b"another wheel")
    _, after = hash_runtime_conf(CLUSTER["file_mounts"], [], ["1"], True)
    assert before != after, "a new wheel reaches the nodes"


def docker_run() -> list[str]:
    """The words of the `docker run` that Ray makes of this file, the same on every node."""
    from ray.autoscaler._private.docker import docker_start_cmds

    docker, user = CLUSTER["docker"], CLUSTER["auth"]["ssh_user"]
    mounts, name = CLUSTER["file_mounts"], docker["container_name"]
    options = docker["run_options"]
    command = docker_start_cmds(
        user, docker["image"], mounts, name, options, "c", "/home/ray", "docker"
    )
    return shlex.split(command)


def test_nothing_is_reported_and_a_worker_without_gpus_sees_none():
    from raypipe.cluster.ray_start import ENVIRONMENT

    variables = container_variables()
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        assert variables[name] == ENVIRONMENT[name]
    # `ray up` exports the variable anew with what holds on the machine that it is run on.
    assert "--disable-usage-stats" in start_command(CLUSTER["head_start_ray_commands"])


def test_the_variables_of_the_packaged_recipes_are_set_below_what_is_mounted():
    recipes = "".join(p.read_text() for p in (ROOT / "jobs" / "configs").glob("msmarco-p*.yaml"))
    variables = container_variables()
    options = [shlex.split(option) for option in CLUSTER["docker"]["run_options"]]
    mounted = {words[1].split(":")[1] for words in options if words[0] == "-v"}
    for name in re.findall(r"\$\{(\w+)\}", recipes):
        assert any(variables[name].startswith(f"{folder}/") for folder in mounted)


def test_it_holds_no_account_and_no_secret():
    text = (ROOT / "cluster.yaml").read_text()
    assert not re.search(r"\d{12}|AKIA|arn:|\b(sg|ami|subnet|vpc)-[0-9a-f]+", text)
    assert {"SECURITY_GROUP", "AMI", "BUCKET"} <= set(re.findall(r"\b[A-Z_]+\b", text))


def test_every_choice_says_why():
    lines = (ROOT / "cluster.yaml").read_text().splitlines()
    assert sum("#" in line for line in lines) >= 30
    assert all(len(line) <= 110 for line in lines)
