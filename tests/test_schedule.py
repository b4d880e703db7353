"""docs/reindexing.md and its files: commands exist, units and manifests are taken as they stand."""

import configparser
import copy
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from recipes import dense, write_files

from raypipe.cli.main import app
from raypipe.config.load import load_recipe
from raypipe.driver.generations.drift import limits_of
from raypipe.driver.summaries import new_summary, write_summary
from raypipe.driver.workspace import Workspace

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reindexing.md").read_text().partition("\n## On a schedule\n")[2]
FOLDER = ROOT / "docs" / "schedule"
RESOURCES = {
    (body["kind"], body["metadata"].get("name") or body["metadata"]["generateName"]): body
    for file in sorted(FOLDER.glob("*.yaml"))
    for body in yaml.safe_load_all(file.read_text())
}
CLUSTER = RESOURCES["RayCluster", "raypipe"]["spec"]
JOB = RESOURCES["RayJob", "reindex-"]["spec"]
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
    group = typer.main.get_command(app())
    above = group.make_context("raypipe", [], resilient_parsing=True)  # commands keep its -h
    verbs, shown = group.commands, commands("reindex")
    assert len(shown) == 5 and len(commands("status")) >= 4
    for words in shown:
        context = verbs["reindex"].make_context("reindex", list(words), parent=above)
        assert context.params["frozen"] and context.params["keep"] == 7, words
        limits_of(tuple(context.params["max_drift"] or ()), ())
    for words in commands("status"):
        verbs["status"].make_context("status", list(words), parent=above)


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


@pytest.mark.parametrize("shown", sorted(nights()))
def test_every_night_shown_begins_in_an_empty_folder(
    shown, raypipe_here, tiny_model, tmp_path, monkeypatch
):
    """The first night compares with nothing, also after one that failed; the later ones do."""
    monkeypatch.chdir(tmp_path)
    words = shown.split()
    Path(words[1]).write_text(dense(tmp_path, tiny_model, name="mine"))
    write_files(tmp_path, {})
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
    assert changed.returncode == 4 and "--frozen: stages.dense.depth 3 -> 2; " in changed.stderr


@pytest.mark.filterwarnings("ignore")  # Ray's own, of its packages that raypipe does not use
def test_ray_takes_the_submissions_and_their_id_holds_the_date():
    from ray.scripts.scripts import cli

    texts = [*re.findall(r"^    (ray job submit .*)$", PAGE, re.MULTILINE)]
    texts += re.findall(r"(ray job submit .*) &&", script(NIGHT))
    (named,) = re.findall(r"^ *(address=\S+ id=\S+.*)$", script(NIGHT), re.MULTILINE)
    assert len(texts) == 2
    for text in texts:
        done = subprocess.run(
            ["bash", "-c", f'{named}; printf "%s\\n" {text}'],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
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


def broken(body):
    return {**body, "spec": {**body["spec"], "no_such_key": 1}}


@pytest.mark.long
@pytest.mark.skipif("KUBERAY_CRDS" not in os.environ, reason="KUBERAY_CRDS names no folder")
def test_kuberays_own_schemas_take_its_resources_and_refuse_an_unknown_key():
    """KUBERAY_CRDS: ray-operator/config/crd/bases of KubeRay."""
    from jsonschema import Draft202012Validator

    schemas = dict(crd_schema(file) for file in Path(os.environ["KUBERAY_CRDS"]).glob("*.yaml"))
    nightly = {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": "nightly"}}
    nightly["spec"] = {"schedule": "0 2 * * *", "timeZone": "Etc/UTC", "jobTemplate": JOB}
    of_ray = [body for body in RESOURCES.values() if body["apiVersion"] == "ray.io/v1"]
    assert {body["kind"] for body in of_ray} == {"RayCluster", "RayJob"}
    for body in [*of_ray, nightly]:
        check = Draft202012Validator(schemas[body["kind"]])
        assert [error.message for error in check.iter_errors(body)] == []
        assert any("no_such_key" in error.message for error in check.iter_errors(broken(body)))


@pytest.mark.long
def test_kubernetes_own_schemas_take_the_other_resources_and_refuse_an_unknown_key():
    kubernetes = pytest.importorskip("kubernetes_validate")
    version = kubernetes.latest_version()
    for body in RESOURCES.values():
        if body["apiVersion"] != "ray.io/v1":
            kubernetes.validate(body, version, strict=True)
            with pytest.raises(kubernetes.ValidationError):
                kubernetes.validate(broken(body), version, strict=True)


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
        assert (
            "python /home/ray/raypipe/jobs/reindex.py /recipe/my-recipe.yaml --out /shared/" in text
        )
    (wheel,) = re.findall(r"pip wheel --no-deps --wheel-dir (\S+)", docker)
    assert wheel == "dist"


def test_the_cluster_of_one_job_is_the_one_that_stays():
    assert JOB["rayClusterSpec"] == CLUSTER
    assert JOB["shutdownAfterJobFinishes"] and JOB["backoffLimit"] == 0


GROUPS = [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]]
PODS = [*(group["template"]["spec"] for group in GROUPS), pod(NIGHT), pod(ALARM)]


def volumes(pod_spec):
    """By the path where it is mounted, what a volume of the pod is."""
    (container,) = pod_spec["containers"]
    named = {volume["name"]: volume for volume in pod_spec["volumes"]}
    return {mount["mountPath"]: named[mount["name"]] for mount in container["volumeMounts"]}


def test_every_pod_mounts_the_work_and_may_write_it():
    """Ray's image runs as user 1000 of group 100: without fsGroup the volume belongs to root."""
    for each in PODS:
        claim = volumes(each)["/shared"]["persistentVolumeClaim"]["claimName"]
        assert ("PersistentVolumeClaim", claim) in RESOURCES
        security = each["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (
            1000,
            100,
            100,
        )
    (claim,) = [body["spec"] for (kind, _), body in RESOURCES.items() if "Volume" in kind]
    assert claim["accessModes"] == ["ReadWriteMany"] and claim["storageClassName"]


def test_the_recipe_is_where_the_driver_looks_for_it():
    """A ConfigMap, made by the command that the file shows; the driver runs on the head."""
    text = (FOLDER / "raycluster.yaml").read_text()
    (made,) = re.findall(r"kubectl create configmap (\S+) --from-file=(\S+) ", text)
    head, *workers = (volumes(group["template"]["spec"]) for group in GROUPS)
    (path,) = {*re.findall(r"reindex\.py (\S+) ", JOB["entrypoint"] + script(NIGHT))}
    assert made == (head["/recipe"]["configMap"]["name"], path.removeprefix("/recipe/"))
    assert not any("/recipe" in each for each in workers)


def test_a_recipe_is_read_as_kubernetes_mounts_it(tmp_path):
    """A link to a link, so that a change appears at once."""
    (tmp_path / "..1").mkdir()
    (tmp_path / "..1" / "my-recipe.yaml").write_text(dense(tmp_path, "/shared/model", name="mine"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "my-recipe.yaml").symlink_to("..data/my-recipe.yaml")
    assert load_recipe(tmp_path / "my-recipe.yaml").name == "mine"


def test_secrets_are_in_no_file():
    secret = CLUSTER["authOptions"]["secretName"]
    (night,), (alarm,) = pod(NIGHT)["containers"], pod(ALARM)["containers"]
    mode, token = night["env"]
    (url,) = alarm["env"]
    assert mode == {"name": "RAY_AUTH_MODE", "value": "token"}
    keys = {"RAY_AUTH_TOKEN": (secret, "auth_token"), "ALARM_URL": ("raypipe-alarm", "url")}
    text = "".join(file.read_text() for file in FOLDER.glob("*.yaml"))
    for variable in (token, url):
        name, key = keys[variable["name"]]
        assert "value" not in variable
        assert variable["valueFrom"]["secretKeyRef"] == {"name": name, "key": key}
        assert re.search(rf"kubectl create secret generic {name} --from-literal={key}=", text)


def test_each_night_has_a_job_of_its_own_and_a_lost_connection_ends_none():
    assert "name" not in RESOURCES["RayJob", "reindex-"]["metadata"]
    assert "kubectl create -f rayjob.yaml" in (FOLDER / "rayjob.yaml").read_text()
    assert JOB["backoffLimit"] == 0 < JOB["submitterConfig"]["backoffLimit"]
    assert "http://raypipe-head-svc:8265" in script(NIGHT), "the head's service, by its name"
    assert NIGHT["concurrencyPolicy"] == "Forbid"
    assert NIGHT["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert NIGHT["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 24 * 3600
    assert ALARM["jobTemplate"]["spec"]["backoffLimit"] > 0


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.name)
def test_each_file_says_which_lines_are_to_be_edited(file):
    """Images, classes, sizes, times, users and paths, as far as a file has them."""
    lines = file.read_text().splitlines()
    assert any("EDIT" in line and line.lstrip().startswith("#") for line in lines), "at its head"
    for number, line in enumerate(lines):
        if re.match(
            r" *(image|storage|storageClassName|schedule|maxReplicas|resources|OnCalendar|User"
            r"|WorkingDirectory|FROM)\b *[:= ](?! *$| *{}| *\n)", line
        ):  # fmt: skip
            near = "\n".join(lines[max(0, number - 3) : number + 1])
            assert "EDIT" in near, f"line {number + 1}: {line}"


NOW, BEFORE = "2999-01-01T02:00:00Z", "2026-11-23T02:00:00Z"


class Shell:
    """Runs a manifest's script in a folder in the place of /shared, with a stand-in for Ray."""

    def __init__(self, folder):
        self.folder, self.work = folder, folder / "nightly"
        self.calls = folder / "calls"
        self.ray()

    def ray(self, submits=(0,), knows=1, night=None):
        """`ray job submit` exits with each in turn; with the last one the night's end appears."""
        (self.folder / "bin").mkdir(exist_ok=True)
        self.calls.write_text("")
        appears = self.folder / "appears.json"
        if night is not None:
            appears.write_bytes(night)
        program = f"""import os, shutil, sys
verb, calls = sys.argv[2], open({str(self.calls)!r}, "a+")
print(verb, file=calls, flush=True)
calls.seek(0)
codes, asked = {list(submits)!r}, calls.read().split()
code = codes[min(asked.count("submit"), len(codes)) - 1] if verb == "submit" else {knows}
if asked.count("submit") >= len(codes) and os.path.exists({str(appears)!r}):
    shutil.move({str(appears)!r}, {str(self.work / "summary.json")!r})
sys.exit(code)
"""
        (self.folder / "ray.py").write_text(program)
        for name, words in (("ray", str(self.folder / "ray.py")), ("raypipe", "-m raypipe")):
            path = self.folder / "bin" / name
            path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            path.chmod(0o755)

    def run(self, text, **environment):
        """Code and output of a script."""
        places = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["bash", "-c", text.replace("/shared/nightly", str(self.work))]
        environment = {**os.environ, "PATH": places, "PAUSE": "0.01", **environment}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout

    def ended(self, code, began, reason="why"):
        """The workspace's summary after an invocation that ended so; its bytes."""
        Workspace(self.work)
        state = {"status": "failed" if code else "complete", "exit": code, "reason": reason}
        write_summary(self.work, {**new_summary("mine"), **state, "began": began})
        return (self.work / "summary.json").read_bytes()


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 5])
@pytest.mark.parametrize(
    ("submits", "knows", "calls"),
    [
        ([0], 1, ["submit"]),
        ([1, 1, 0], 1, ["submit", "status", "submit", "status", "submit"]),
        ([1], 0, ["submit", "status"]),
    ],
    ids=["at once", "nobody answered twice", "the answer was lost"],
)
def test_the_nights_pod_ends_as_the_night_ended_whatever_became_of_its_connection(
    shell, code, submits, knows, calls
):
    night = shell.ended(code, NOW)
    shell.ended(3, BEFORE, reason="the night before")
    shell.ray(submits, knows, night)
    ended, told = shell.run(script(NIGHT))
    assert ended == code and shell.calls.read_text().split() == calls
    assert ("failed: exit 5, why" if code else "complete: exit 0") in told
    assert "the night before" not in told


@pytest.mark.slow
def test_a_job_that_nobody_takes_is_no_night(shell):
    shell.ended(0, NOW)
    shell.ray([1])
    code, told = shell.run(script(NIGHT))
    assert code == 1 and "no job could be submitted to http://raypipe-head-svc:8265" in told
    assert shell.calls.read_text().split() == ["submit", "status"] * 10


@pytest.fixture
def channel():
    """A webhook's address, and what it was told."""

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            assert self.headers["Content-Type"] == "application/json"
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            pass

    told = []
    with HTTPServer(("127.0.0.1", 0), Webhook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", told
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_the_alarm_tells_of_a_night_that_failed_or_never_began_and_of_no_other(shell, channel):
    url, told = channel
    (shown,) = re.findall(r"^    (find /srv/raypipe/.*)$", PAGE, re.MULTILINE)
    asked, _, acts = shown.replace("/srv/raypipe/work", "/shared/nightly").partition(" && ")
    assert asked in script(ALARM) and acts in script(ALARM)
    assert shell.run(script(ALARM), ALARM_URL=url)[0] == 0
    assert [body["text"].splitlines()[0] for body in told] == ["raypipe: not re-indexed"]
    assert told.pop()["text"].endswith("no invocation began in the last 12 hours")
    shell.ended(0, BEFORE)
    assert shell.run(script(ALARM), ALARM_URL=url)[0] == 0 and told == []
    shell.ended(3, BEFORE, reason='a "disk" is full')
    assert shell.run(script(ALARM), ALARM_URL=url)[0] == 0
    assert told.pop()["text"].splitlines()[1] == 'failed: exit 3, a "disk" is full'
    old = time.time() - 13 * 3600
    os.utime(shell.work / "summary.json", (old, old))
    assert shell.run(script(ALARM), ALARM_URL=url)[0] == 0 and "no invocation" in told.pop()["text"]


@pytest.mark.slow
def test_an_alarm_that_reaches_nobody_fails_and_is_tried_again(shell):
    shell.ended(5, BEFORE)
    assert shell.run(script(ALARM), ALARM_URL="http://127.0.0.1:9/hook")[0] != 0


def test_the_table_has_every_exit_code():
    from raypipe import errors

    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = {each.exit_code for each in kinds if issubclass(each, errors.RaypipeError)}
    cells = re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE)
    assert {int(code) for cell in cells for code in cell.split(",")} == codes | {0, 1, 130, 143}
