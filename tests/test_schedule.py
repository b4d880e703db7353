"""docs/reindexing.md and its files: commands exist, units and manifests are taken as they stand."""

import configparser
import copy
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml
from packaging.requirements import Requirement

from raypipe.cli.main import app
from raypipe.driver.generations.drift import limits_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reindexing.md").read_text().partition("\n## On a schedule\n")[2]
FOLDER = ROOT / "docs" / "schedule"
RESOURCES = {
    (body["kind"], body["metadata"]["name"]): body
    for file in sorted(FOLDER.glob("*.yaml"))
    for body in yaml.safe_load_all(file.read_text())
}
CLUSTER = RESOURCES["RayCluster", "raypipe"]["spec"]
JOB = RESOURCES["RayJob", "reindex"]["spec"]
NIGHT, ALARM = (RESOURCES["CronJob", name]["spec"] for name in ("reindex", "reindex-alarm"))


def crd_schema(path, version="v1"):
    """(kind, JSON schema) of a file that defines a custom resource."""
    body = yaml.safe_load(path.read_text())["spec"]
    (found,) = [each for each in body["versions"] if each["name"] == version]
    return body["names"]["kind"], strict(found["schema"]["openAPIV3Schema"])


def strict(schema):
    """The schema without keys that it does not name: the API server drops them."""
    schema = copy.deepcopy(schema)
    places = [schema]
    while places:
        place = places.pop()
        inner = place.get("properties", {})
        places += inner.values()
        places += [each for key in ("items", "additionalProperties") if (each := place.get(key))]
        open_to_all = place.get("x-kubernetes-preserve-unknown-fields")
        if inner and not open_to_all and "additionalProperties" not in place:
            place["additionalProperties"] = False
    return schema


def unit(name):
    found = configparser.ConfigParser(interpolation=None, strict=True)
    found.optionxform = str
    found.read(FOLDER / name)
    return found


def pod(cronjob):
    return cronjob["jobTemplate"]["spec"]["template"]["spec"]


def script(cronjob):
    (container,) = pod(cronjob)["containers"]
    assert container["command"] == ["/bin/bash", "-c"]
    (text,) = container["args"]
    return text


def commands(name):
    """Every `raypipe NAME` or `jobs/NAME.py` that is shown, as the words behind it."""
    texts = [PAGE, JOB["entrypoint"], script(NIGHT), script(ALARM)]
    texts += [file.read_text() for file in FOLDER.glob("*.service")]
    pattern = rf"(?:raypipe {name}|jobs/{name}\.py) ([\w/.@= -]+?) *(?:2>|&&|\|\||\||$|`)"
    found = [each for text in texts for each in re.findall(pattern, text, re.MULTILINE)]
    return [shlex.split(each) for each in found]


def test_every_command_shown_is_taken_as_it_stands():
    verbs = typer.main.get_command(app).commands
    shown = commands("reindex")
    assert len(shown) == 5 and len(commands("status")) >= 4
    for words in shown:
        context = verbs["reindex"].make_context("reindex", list(words))
        assert context.params["frozen"] and context.params["keep"] == 7, words
        limits_of(tuple(context.params["max_drift"] or ()), ())
    for words in commands("status"):
        verbs["status"].make_context("status", list(words))


def nights():
    """Every `pipeline` and `reindex` with `--frozen`, README's too, without places and devices."""
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/reindexing.md")]
    found = [
        shlex.split(text)
        for page in pages
        for text in re.findall(r"^    raypipe (.*my-recipe.*--frozen.*)$", page, re.MULTILINE)
    ]
    found += [["reindex", *words] for words in commands("reindex")]
    plain = [[Path(word).name if "/" in word else word for word in words] for words in found]
    return {" ".join(w for w in words if not w.startswith("resources.")) for words in plain}


RECIPE = """
format: 1
name: mine
collection: {{format: msmarco-v1, input: passages.tsv}}
queries: {{test: {{file: queries.tsv}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 3}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.mark.parametrize("shown", sorted(nights()))
def test_every_night_shown_begins_in_an_empty_folder(
    shown, raypipe_here, tiny_model, tmp_path, monkeypatch
):
    """The first night compares with nothing, also after one that failed; the later ones do."""
    monkeypatch.chdir(tmp_path)
    words = shown.split()
    Path(words[1]).write_text(RECIPE.format(model=tiny_model))
    Path("queries.tsv").write_text("1\tthe zebra\n2\ta lease\n")
    Path("passages.tsv").write_bytes(b"p0\tthe zebra\np1\t\xff\n")
    assert raypipe_here(*words).returncode == 2, "a file that has to be mended"
    Path("passages.tsv").write_bytes(b"p0\tthe zebra\np1\ta lease\np2\trun\np3\tshard\n")
    first = raypipe_here(*words)
    assert first.returncode == 0, first.stderr
    line = "no earlier invocation finished in "
    assert line in first.stderr
    again = raypipe_here(*words)
    assert again.returncode == 0 and line not in again.stderr
    Path("passages.tsv").write_bytes(b"p0\tthe \xff\n")
    assert raypipe_here(*words).returncode == 2
    Path("passages.tsv").write_bytes(b"p0\tthe zebra\np1\ta lease\np2\trun\n")
    changed = raypipe_here(*words, "stages.dense.depth=2")
    assert changed.returncode == 4 and "params.depth 3 -> 2" in changed.stderr


@pytest.mark.filterwarnings("ignore")  # Ray's own, of its packages that raypipe does not use
def test_ray_takes_the_submissions_and_their_id_holds_the_date():
    from ray.scripts.scripts import cli

    texts = [*re.findall(r"^    (ray job submit .*)$", PAGE, re.MULTILINE)]
    texts += re.findall(r"(ray job submit .*) &&", script(NIGHT))
    assert len(texts) == 2
    for text in texts:
        done = subprocess.run(
            ["bash", "-c", f'printf "%s\\n" {text}'], capture_output=True, text=True, check=True
        )
        submit = cli.commands["job"].commands["submit"]
        found = submit.make_context("submit", done.stdout.splitlines()[3:]).params
        assert re.fullmatch(r"reindex-\d{4}-\d\d-\d\d", found["submission_id"])
        assert found["entrypoint"][:1] == ("python",)


def test_the_timer_starts_the_service_and_its_failure_another():
    timer, service = unit("raypipe-reindex.timer"), unit("raypipe-reindex.service")
    assert "Unit" not in timer["Timer"], "it starts the service of its own name"
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"
    failed = unit(service["Unit"]["OnFailure"])
    assert service["Service"]["Type"] == failed["Service"]["Type"] == "oneshot"
    assert "raypipe status work" in failed["Service"]["ExecStart"]
    for key in ("User", "WorkingDirectory"):
        assert service["Service"][key] == failed["Service"][key]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path):
    """Without a word; and it names a key that it does not know."""
    stand_in = tmp_path / "raypipe"  # this environment's path may have a blank
    stand_in.symlink_to(sys.executable)
    for file in FOLDER.glob("raypipe-reindex*"):
        text = file.read_text().replace("/opt/raypipe/.venv/bin/raypipe", str(stand_in))
        (tmp_path / file.name).write_text(text)
    units = sorted(map(str, tmp_path.glob("raypipe-*")))
    assert len(units) == 3
    command = ["systemd-analyze", "verify", "--man=no", *units]
    done = subprocess.run(command, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if "raypipe-reindex" in line]
    assert done.returncode == 0 and told == [], done.stderr
    with (tmp_path / "raypipe-reindex.timer").open("a") as file:
        file.write("[Timer]\nOnCalender=daily\n")
    done = subprocess.run(command, capture_output=True, text=True)
    assert "OnCalender" in done.stderr


def test_resources_have_what_their_schemas_require():
    """Of ray.io/v1 in KubeRay 1.7.0 and batch/v1; `long` compares with the whole schemas."""
    versions = {"RayCluster": "ray.io/v1", "RayJob": "ray.io/v1", "CronJob": "batch/v1"}
    versions["PersistentVolumeClaim"] = "v1"
    assert {kind: body["apiVersion"] for (kind, _), body in RESOURCES.items()} == versions
    for spec in (CLUSTER, JOB["rayClusterSpec"]):
        assert {"template", "rayStartParams"} <= set(spec["headGroupSpec"])
        for group in spec["workerGroupSpecs"]:
            assert {"groupName", "template", "minReplicas", "maxReplicas"} <= set(group)
            assert 0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert spec["authOptions"]["mode"] in ("disabled", "token")
    assert JOB.get("submissionMode", "K8sJobMode") == "K8sJobMode"
    for job in (NIGHT, ALARM):
        assert job["concurrencyPolicy"] in ("Allow", "Forbid", "Replace")
        assert pod(job)["restartPolicy"] in ("Never", "OnFailure")
        assert len(job["schedule"].split()) == 5


@pytest.mark.long
@pytest.mark.skipif("KUBERAY_CRDS" not in os.environ, reason="KUBERAY_CRDS names no folder")
def test_the_published_schemas_take_them_and_refuse_an_unknown_key():
    """KUBERAY_CRDS: ray-operator/config/crd/bases of KubeRay. The rest where kubernetes-validate
    is installed."""
    from jsonschema import Draft202012Validator

    folder = Path(os.environ["KUBERAY_CRDS"])
    schemas = dict(crd_schema(file) for file in folder.glob("*.yaml"))
    nightly = {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": "nightly"}}
    nightly["spec"] = {"schedule": "0 2 * * *", "timeZone": "Etc/UTC", "jobTemplate": JOB}
    for body in [*RESOURCES.values(), nightly]:
        broken = {**body, "spec": {**body["spec"], "no_such_key": 1}}
        if body["kind"] in schemas:
            check = Draft202012Validator(schemas[body["kind"]])
            assert [error.message for error in check.iter_errors(body)] == []
            assert any("no_such_key" in error.message for error in check.iter_errors(broken))
            continue
        kubernetes = pytest.importorskip("kubernetes_validate")
        version = kubernetes.latest_version()
        kubernetes.validate(body, version, strict=True)
        with pytest.raises(kubernetes.ValidationError):
            kubernetes.validate(broken, version, strict=True)


def test_all_nodes_have_one_image_of_the_ray_that_is_pinned():
    text = "".join(file.read_text() for file in FOLDER.iterdir())
    (image,) = set(re.findall(r"registry\.example\.org/[\w:.-]+", text + PAGE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert image.endswith(f":{project['version']}")
    (base,) = re.findall(r"^FROM (\S+)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert base == yaml.safe_load((ROOT / "cluster.yaml").read_text())["docker"]["image"]
    (pin,) = [r for r in map(Requirement, project["dependencies"]) if r.name == "ray"]
    for spec in (CLUSTER, JOB["rayClusterSpec"]):
        assert spec["rayVersion"] in pin.specifier and f":{spec['rayVersion']}-" in base


def test_the_image_has_what_the_manifests_start():
    docker = (FOLDER / "Dockerfile").read_text().replace("\\\n", "")
    steps = [line.split() for line in docker.splitlines() if line and line[0] != "#"]
    assert {step[0] for step in steps} == {"FROM", "COPY", "RUN", "ENV"}
    copied = [[w for w in step[1:] if w[:2] != "--"] for step in steps if step[0] == "COPY"]
    for *sources, _ in copied:
        assert all(source[:5] == "dist/" or (ROOT / source).exists() for source in sources)
    assert ["jobs", "/home/ray/raypipe/jobs"] in copied
    for text in (JOB["entrypoint"], script(NIGHT)):
        assert "python /home/ray/raypipe/jobs/reindex.py /shared/" in text
    (wheel,) = re.findall(r"pip wheel --no-deps --wheel-dir (\S+)", docker)
    assert wheel == "dist"


def test_the_cluster_of_one_job_is_the_one_that_stays():
    assert JOB["rayClusterSpec"] == CLUSTER
    assert JOB["shutdownAfterJobFinishes"] and JOB["backoffLimit"] == 0


def test_every_pod_mounts_the_work_and_the_token_is_a_secret():
    groups = [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]]
    pods = [*(group["template"]["spec"] for group in groups), pod(NIGHT), pod(ALARM)]
    for each in pods:
        (container,), (volume,) = each["containers"], each["volumes"]
        (mount,) = container["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/shared")
        claim = volume["persistentVolumeClaim"]["claimName"]
        assert ("PersistentVolumeClaim", claim) in RESOURCES
    secret = CLUSTER["authOptions"]["secretName"]
    (container,) = pod(NIGHT)["containers"]
    mode, token = container["env"]
    assert mode == {"name": "RAY_AUTH_MODE", "value": "token"}
    assert token["name"] == "RAY_AUTH_TOKEN" and "value" not in token
    assert token["valueFrom"]["secretKeyRef"] == {"name": secret, "key": "auth_token"}
    assert "http://raypipe-head-svc:8265" in script(NIGHT), "the head's service, by its name"
    assert NIGHT["concurrencyPolicy"] == "Forbid"


@pytest.fixture
def shell(tmp_path):
    """Runs a manifest's script with programs that exit as told; its code and what it called."""

    def run(text, **codes):
        log = tmp_path / "log"
        log.write_text("")
        for name, code in codes.items():
            program = tmp_path / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/sh\necho "{name} $1" >> {log}\nexit {code}\n')
            program.chmod(0o755)
        (tmp_path / "nightly").mkdir(exist_ok=True)
        environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        command = ["bash", "-c", text.replace("/shared/nightly", str(tmp_path / "nightly"))]
        return subprocess.run(command, env=environment).returncode, log.read_text().split("\n")[:-1]

    run.summary = tmp_path / "nightly" / "summary.json"
    return run


def test_the_nights_pod_exits_with_the_code_of_status_where_the_job_failed(shell):
    assert shell(script(NIGHT), ray=0, raypipe=5) == (0, ["ray job"])
    assert shell(script(NIGHT), ray=1, raypipe=5) == (5, ["ray job", "raypipe status"])
    assert shell(script(NIGHT), ray=1, raypipe=0)[0] == 1, "Ray has refused a second submission"


def test_the_alarm_is_for_a_night_that_failed_or_never_began(shell):
    (shown,) = re.findall(r"^    (find /srv/raypipe/.*)$", PAGE, re.MULTILINE)
    assert shown.replace("/srv/raypipe/work", "/shared/nightly") == script(ALARM)
    assert shell(script(ALARM), raypipe=0) == (1, [])
    shell.summary.touch()
    assert shell(script(ALARM), raypipe=0) == (0, ["raypipe status"])
    assert shell(script(ALARM), raypipe=3) == (3, ["raypipe status"])
    old = shell.summary.stat().st_mtime - 13 * 3600
    os.utime(shell.summary, (old, old))
    assert shell(script(ALARM), raypipe=0) == (1, [])


def test_the_table_has_every_exit_code():
    from raypipe import errors

    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = {each.exit_code for each in kinds if issubclass(each, errors.RaypipeError)}
    cells = re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE)
    assert {int(code) for cell in cells for code in cell.split(",")} == codes | {0, 1, 130, 143}
