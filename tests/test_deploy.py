"""What ``deploy/`` holds, as far as it can be held to something without images and a cluster.

The steps of the Dockerfile are run by ``make check-image``.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kubernetes_validate
import promql_parser
import pytest
import trustme
import yaml
from typer.main import get_command

from signalbook import metrics, settings
from signalbook.access.policy import read_policy
from signalbook.api.metrics import collect_registry_state
from signalbook.cli.app import app
from signalbook.events.subscriptions.store import Keyring
from signalbook.server import check_secrets
from signalbook.settings import SettingError, Settings
from signalbook.storage import open_store
from signalbook.storage.subscriptions import RETRYING, DeliveryState

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
LOCAL = ("kustomization.yaml", "access.yaml")
"""Files that are no resources of a cluster."""
VERSION = "1.33"
RESOURCES = sorted(path for path in KUBERNETES.glob("*.yaml") if path.name not in LOCAL)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def instructions(stage: str) -> list[tuple[str, str]]:
    """Return the instructions of one stage of the Dockerfile with their arguments."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    stages: dict[str, list[tuple[str, str]]] = {}
    here: list[tuple[str, str]] = []
    for line in filter(None, lines):
        word, _, arguments = line.partition(" ")
        if word == "FROM":
            here = stages[arguments.split()[-1]] = []
        here.append((word, arguments.strip()))
    return stages[stage]


def command_exists(words: list[str]) -> None:
    """Hold the words of a command line to the commands and options there are."""
    command: Any = get_command(app)
    while words and words[0] != "--help" and hasattr(command, "commands"):
        assert words[0] in command.commands, words
        command = command.commands[words[0]]
        words = words[1:]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options | {"--help"}


def setting_names(variables: dict[str, str]) -> None:
    """Hold variables of the environment to the settings there are, and load them."""
    ours = {name: value for name, value in variables.items() if name.startswith("SIGNALBOOK_")}
    names = {name.removeprefix("SIGNALBOOK_").lower() for name in ours} - {"token"}
    assert names <= set(settings.names())
    settings.load(environ={name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in ours.items()})


@pytest.mark.parametrize("stage", ["server", "pipeline"])
def test_images_run_as_an_unprivileged_user(stage: str) -> None:
    stage_instructions = instructions(stage)
    last = dict(stage_instructions)
    assert last["USER"].split(":")[0].isdigit()
    assert int(last["USER"].split(":")[0]) >= 10_000
    assert last["VOLUME"] == last["WORKDIR"] == "/data"
    assert "HOME=/tmp" in last["ENV"]
    words = [word for which in ("ENTRYPOINT", "CMD") for word in yaml.safe_load(last[which])]
    assert words[0] == "signalbook"
    command_exists(words[1:])


def test_the_server_s_image_is_checked_and_reached() -> None:
    last = dict(instructions("server"))
    assert "SIGNALBOOK_HOST=0.0.0.0" in last["ENV"]
    assert last["EXPOSE"] == str(Settings.port)
    command = yaml.safe_load(last["HEALTHCHECK"].partition("CMD ")[2])
    assert f"127.0.0.1:{Settings.port}/health/ready" in command[-1]
    compile(command[-1], "HEALTHCHECK", "exec")


def test_copied_files_exist_and_are_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for stage in ("build", "build-pipeline"):
        copied = [
            name for word, arguments in instructions(stage) if word == "COPY" for name in shlex.split(arguments)[:-1]
        ]
        for name in copied:
            assert (ROOT / name).exists()
            assert name in sent


def services() -> dict[str, Any]:
    composed: dict[str, Any] = read(DEPLOY / "compose" / "compose.yaml")["services"]
    return composed


@pytest.mark.parametrize("name", ["server", "migrate", "pipeline"])
def test_composed_services_are_hardened(name: str) -> None:
    service = services()[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    setting_names(service["environment"])
    target, dockerfile = service["build"]["target"], service["build"]["dockerfile"]
    context = (DEPLOY / "compose" / service["build"]["context"]).resolve()
    assert (context / dockerfile).resolve() == DEPLOY / "Dockerfile"
    entry = yaml.safe_load(dict(instructions(target))["ENTRYPOINT"])
    command_exists([*entry[1:], *service["command"]])


def test_references_of_composed_services_are_declared() -> None:
    document = read(DEPLOY / "compose" / "compose.yaml")
    for service in document["services"].values():
        assert set(service.get("depends_on", {})) <= document["services"].keys()
        assert set(service.get("secrets", [])) <= document["secrets"].keys()
        assert {config["source"] for config in service.get("configs", [])} <= document["configs"].keys()
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", []) if not volume.startswith(".")}
        assert volumes <= document["volumes"].keys()
    example = (DEPLOY / "compose" / "example.env").read_text()
    for name in re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose" / "compose.yaml").read_text()):
        assert f"{name}=" in example


def test_examples_have_no_usable_secrets(tmp_path: Path) -> None:
    """Whoever forgets to replace it is to notice: a published key protects nothing."""
    example = (DEPLOY / "compose" / "example.env").read_text()
    secrets = dict(re.findall(r"^(\w*(?:PASSWORD|TOKEN))=(.*)$", example, re.MULTILINE))
    assert secrets.keys() == {"POSTGRES_PASSWORD", "SIGNALBOOK_TOKEN"}
    assert not re.search(r"(?:PASSWORD|TOKEN)=.", example), "compose asks for what is empty"
    secret = read(KUBERNETES / "secret.example.yaml")["stringData"]
    (tmp_path / "keys").write_text(secret["keys"])
    with pytest.raises(SettingError, match="no key"):
        Keyring(tmp_path / "keys").keys()
    with pytest.raises(SettingError, match="is that of an example"):
        check_secrets(Settings(db="postgresql://u@h/d"), {"PGPASSWORD": secret["PGPASSWORD"]})
    everything = [path for name in ("deploy", "examples") for path in (ROOT / name).rglob("*") if path.is_file()]
    for path in everything:
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"sbk_\w|PRIVATE KEY|\b[A-Za-z0-9+/]{43}=", text), path


def test_lock_file_has_hashes_and_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    entries = re.findall(r"^\w.*\n(?: .*\n)*", lock, re.MULTILINE)
    assert len(entries) > 100
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in lock


@pytest.mark.parametrize(
    ("extras", "some", "none"),
    [
        ([], {"starlette", "uvloop", "anyio", "rich"}, {"pyspark", "psycopg", "pytest"}),
        (["postgres"], {"starlette", "psycopg", "psycopg-binary"}, {"pyspark", "pytest"}),
        (["pipeline"], {"pyspark", "py4j", "pyarrow", "pyiceberg", "sqlalchemy"}, {"pytest", "dagster"}),
    ],
)
def test_lock_file_of_selected_extras(extras: list[str], some: set[str], none: set[str]) -> None:
    command = [sys.executable, "tools/locked", *extras]
    part = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^([\w-]+)==", part, re.MULTILINE))
    assert some <= names
    assert not none & names


@pytest.mark.parametrize("folder", ["compose", "kubernetes", "systemd"])
def test_the_policies_can_be_used(folder: str) -> None:
    policy = read_policy(read(DEPLOY / folder / "access.yaml"))
    assert policy.administrators


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.name)
def test_manifests_keep_to_kubernetes_schemas(path: Path) -> None:
    kubernetes_validate.validate(read(path), VERSION, strict=True)


def test_invalid_manifest_is_detected() -> None:
    wrong = read(KUBERNETES / "deployment.yaml")
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_kustomize_takes_every_manifest_but_the_example() -> None:
    listed = read(KUBERNETES / "kustomization.yaml")["resources"]
    assert sorted(listed) == [path.name for path in RESOURCES if path.name != "secret.example.yaml"]


def containers() -> Iterator[tuple[str, Any, Any]]:
    for name in ("deployment.yaml", "migrate.yaml"):
        pod = read(KUBERNETES / name)["spec"]["template"]["spec"]
        for container in pod["containers"]:
            yield name, pod, container


@pytest.mark.parametrize("which", ["deployment.yaml", "migrate.yaml"])
def test_pods_are_restricted_and_have_probes(which: str) -> None:
    """The pod security standard "restricted", which the namespace enforces."""
    ((_, pod, container),) = [entry for entry in containers() if entry[0] == which]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    rights = container["securityContext"]
    assert (rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]) == (False, True)
    assert rights["capabilities"] == {"drop": ["ALL"]}
    command_exists(container["args"])
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    user = dict(instructions("server"))["USER"].split(":")[0]
    assert pod["securityContext"]["runAsUser"] == int(user)


def test_references_of_pods_exist() -> None:
    kustomization = read(KUBERNETES / "kustomization.yaml")
    literals = dict(literal.split("=", 1) for literal in kustomization["configMapGenerator"][0]["literals"])
    setting_names(literals)
    secret = read(KUBERNETES / "secret.example.yaml")["stringData"]
    for name, pod, container in containers():
        assert container["env"][0]["valueFrom"]["secretKeyRef"]["key"] in secret, name
        for volume in pod["volumes"]:
            if "secret" in volume:
                assert {item["key"] for item in volume["secret"]["items"]} <= secret.keys()
    mounts = {mount["mountPath"] for _, _, literal in containers() for mount in literal["volumeMounts"]}
    for name in ("SIGNALBOOK_KEY_FILE", "SIGNALBOOK_ACCESS_FILE"):
        assert str(Path(literals[name]).parent) in mounts


def test_services_and_budgets_select_the_servers() -> None:
    labels = read(KUBERNETES / "deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert read(KUBERNETES / "service.yaml")["spec"]["selector"] == labels
    assert read(KUBERNETES / "disruptionbudget.yaml")["spec"]["selector"]["matchLabels"] == labels
    assert read(KUBERNETES / "deployment.yaml")["spec"]["selector"]["matchLabels"] == labels
    assert read(KUBERNETES / "migrate.yaml")["spec"]["template"]["metadata"]["labels"] != labels


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    """The unit is verified by systemd, if it is installed, as far as this is possible offline."""
    text = (DEPLOY / "systemd" / "signalbook.service").read_text()
    starts = re.search(r"^ExecStart=(\S+) (.*)$", text, re.MULTILINE)
    assert starts is not None
    command_exists(starts[2].split())
    variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
    setting_names(variables)
    # Closed from the first request: there is no start without a policy.
    assert variables["SIGNALBOOK_ACCESS_FILE"] == "/etc/signalbook/access.yaml"
    run = text.partition("systemd-run ")[2].partition("[Unit]")[0].replace("\\\n#", "")
    words = shlex.split(run)
    command_exists(words[words.index(starts[1]) + 1 :])
    # Dynamic users of one name are one user, as long as both units say so.
    for name in ("DynamicUser", "User", "StateDirectory"):
        (value,) = re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
        assert f"--property={name}={value}" in words
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not there; its unit is checked by structure alone")
    unit = tmp_path / "signalbook.service"
    unit.write_text(text.replace(starts[1], "/bin/true"))
    result = subprocess.run(
        [program, "verify", unit], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    assert (result.returncode, result.stderr) == (0, "")


PROXY = DEPLOY / "proxy"


def test_proxies_remove_identity_headers() -> None:
    """The two proxies replace or remove headers that can contain a user, whatever their value."""
    places = (PROXY / "nginx.conf").read_text().split("location ")
    ways = [place for place in places if f"proxy_pass http://127.0.0.1:{Settings.port};" in place]
    assert len(ways) == 2
    for name in ("X-Forwarded-User", "X-Forwarded-Groups", "X-Forwarded-For"):
        assert all(f"proxy_set_header {name} " in way for way in ways)
        assert re.search(rf"http-request (del|set)-header {name}\b", (PROXY / "haproxy.cfg").read_text())


def test_haproxy_accepts_its_configuration(tmp_path: Path) -> None:
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("haproxy is not there")
    certificate = tmp_path / "registry.pem"
    issued = trustme.CA().issue_cert("registry.example.com")
    certificate.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    text = (PROXY / "haproxy.cfg").read_text().replace("/etc/haproxy/registry.pem", str(certificate))
    (tmp_path / "haproxy.cfg").write_text(text)
    result = subprocess.run([program, "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "[WARNING]" not in result.stderr, result.stderr


def queries() -> Iterator[tuple[str, str]]:
    """Yield the queries of alerts and dashboard with their titles."""
    for group in read(DEPLOY / "prometheus" / "alerts.yaml")["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    dashboard = json.loads((DEPLOY / "grafana" / "signalbook.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["label"], re.sub(r"label_values\((.*), (\w+)\)", r"count by (\2) (\1)", variable["query"])


def exposed() -> dict[str, set[str]]:
    """The names of all samples, with their labels."""
    with closing(open_store("sqlite://")) as store:
        with store.write() as writing:
            writing.subscriptions.put_delivery("one", DeliveryState(position=0, state=RETRYING))
        families = [*metrics.REGISTRY.collect(), *collect_registry_state(store)]
    declared = {metric.describe()[0].name: set(metric._labelnames) for metric in declared_metrics()}
    labels_by_name: dict[str, set[str]] = {}
    for family in families:
        labels = declared.get(family.name) or {label for sample in family.samples for label in sample.labels}
        ends = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}.get(family.type, ("",))
        labels_by_name |= {f"{family.name}{end}": labels for end in ends}
    return labels_by_name


def declared_metrics() -> list[Any]:
    """The metrics that are counted."""
    return [value for value in vars(metrics).values() if hasattr(value, "_labelnames")]


@pytest.mark.parametrize(("title", "query"), list(queries()), ids=lambda text: str(text)[:40])
def test_queries_are_valid_and_use_existing_metrics(title: str, query: str) -> None:
    plain = query.replace("$__rate_interval", "5m").replace("$instance", ".*")
    assert promql_parser.parse(plain)
    names = set(re.findall(r"\b(?:signalbook_\w+|up)\b", plain))
    assert names, title
    known_metrics = {**exposed(), "up": set[str]()}
    assert names <= known_metrics.keys()
    selected = set(re.findall(r"(\w+)=~?\"", plain))
    selected |= {label for words in re.findall(r"by \(([\w, ]+)\)", plain) for label in words.split(", ")}
    of_prometheus = {"instance", "job", "le"}
    assert selected - of_prometheus <= set.union(*(known_metrics[name] for name in names))


def test_every_alert_is_documented() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for group in read(DEPLOY / "prometheus" / "alerts.yaml")["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            assert f"`{rule['alert']}`" in page
