"""Tests of the shipped deployment files: each one is parsed by a tool for its format."""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from assets.commands.install import UNITS, UnsuitableHost, render_unit
from assets.console.command_names import COMMANDS
from pipelines.settings import environment, read
from tests.support import environments
from tests.support.operator import Watched
from tests.support.operator_home import Keeper, Said
from tests.support.shared import some_daily
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "assets" / "deploy"
READ_HERE = {
    *UNITS,
    "Containerfile",
    "compose.yaml",
    "dagster.yaml",
    "dagster-postgres.yaml",
    "helm-values.yaml",
    "image.txt",
    "kubernetes.yaml",
}


def loaded(name: str) -> dict[str, Any]:
    """Load a YAML file of the deploy folder."""
    content: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return content


def test_every_shipped_file_is_tested_here() -> None:
    """Each file in the deploy folder is in the list of the files that are tested here."""
    assert {path.name for path in DEPLOY.iterdir() if path.is_file()} == READ_HERE


@pytest.mark.parametrize("is_system", [True, False])
def test_systemd_accepts_the_units(tmp_path: Path, *, is_system: bool) -> None:
    """systemd-analyze reports no problems in the installed units."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    home = tmp_path / "home"
    home.mkdir()
    files = []
    for name in UNITS:
        files.append(tmp_path / name)
        text = render_unit(name, Layout(home), tmp_path, is_system=is_system)
        assert "@" not in text.replace("in @signs@", "")
        files[-1].write_text(text, encoding="utf-8")
    scope = "--system" if is_system else "--user"
    ran = subprocess.run(
        ["systemd-analyze", scope, "verify", "--man=no", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    about_ours = [line for line in ran.stderr.splitlines() if "nightbook" in line]
    assert (ran.returncode, about_ours) == (0, []), ran.stderr


def test_systemd_rejects_a_wrong_unit(tmp_path: Path) -> None:
    """systemd-analyze reports a wrong line, so the test of the shipped units can fail."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    unit = tmp_path / "nightbook-wrong.service"
    unit.write_text("[Service]\nExecStart=/no/such/program\nRestart=sometimes\n", encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "nightbook-wrong" in ran.stderr


@pytest.mark.parametrize("name", ["dagster.yaml", "dagster-postgres.yaml"])
def test_dagster_accepts_both_instance_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Dagster accepts both instance files, which differ only in their storage."""
    content = loaded(name)
    storage = content.pop("storage", None)
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled
    if storage is not None:
        plain = loaded("dagster.yaml")
        assert content == plain, "the two instance files differ in more than their storage"
        assert set(storage["postgres"]["postgres_db"]) == {
            *("scheme", "hostname", "username", "password", "db_name", "port"),
        }


def test_compose_services_are_limited_and_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one daemon, the UI is on loopback only, and every used name is declared."""
    content = loaded("compose.yaml")
    services = content["services"]
    assert set(services) == {"daemon", "web", "postgres"}
    assert services["web"]["ports"] == ["127.0.0.1:3000:3000"]
    assert not services["daemon"].get("ports")
    for name, one in services.items():
        # The limits of the systemd units: no privileges, limited memory, read-only, limited logs.
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"]), name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert {"mem_limit", "pids_limit", "healthcheck", "tmpfs"} <= one.keys(), name
        assert {"max-size", "max-file"} <= one["logging"]["options"].keys(), name
        assert set(one.get("secrets", [])) <= set(content["secrets"])
        assert set(one.get("depends_on", {})) <= set(services)
        named = [volume.partition(":")[0] for volume in one["volumes"]]
        assert {name for name in named if not name.startswith(".")} <= set(content["volumes"])
    build = services["daemon"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve().is_file()
    assert (DEPLOY / "dagster-postgres.yaml").is_file()


def read_as_compose(path: Path) -> subprocess.CompletedProcess[str]:
    """Parse a file with an implementation of the Compose specification, and return the result."""
    program = (
        "import sys; from pathlib import Path; from compose_spec import PyOptions\n"
        "read = PyOptions(apply_merge=True).from_yaml(Path(sys.argv[1]).read_text())\n"
        "read.validate(); print(*sorted(read.service_names()))"
    )
    return ran([str(environments.python("deploy")), "-c", program, str(path)])


def ran(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command, and return its result with its output."""
    env = dict(os.environ) | more
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_a_parser_of_the_specification_accepts_compose(tmp_path: Path) -> None:
    """A parser for the Compose specification accepts the file, and rejects a wrong one."""
    said = read_as_compose(DEPLOY / "compose.yaml")
    assert (said.returncode, said.stdout.split()) == (0, ["daemon", "postgres", "web"]), said.stderr
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    for right, wrong in (("interval: 5s", "interval: 5parsecs"), ("secrets: [", "secretz: [")):
        assert right in text
        (tmp_path / "compose.yaml").write_text(text.replace(right, wrong), encoding="utf-8")
        assert read_as_compose(tmp_path / "compose.yaml").returncode != 0


def test_hadolint_reports_no_problem_in_the_image(tmp_path: Path) -> None:
    """The image linter reports nothing, not even a hint, and it fails for a wrong file."""
    tool = str(environments.python("deploy").with_name("hadolint"))
    said = ran([tool, str(DEPLOY / "Containerfile")])
    assert (said.returncode, said.stdout) == (0, "")
    (tmp_path / "Containerfile").write_text("FROM python\nCOPPY a b\n", encoding="utf-8")
    assert ran([tool, str(tmp_path / "Containerfile")]).returncode != 0


def context_of(checkout: Path) -> set[str]:
    """Return the files that Docker sends to a build, by the rules of Docker's own client."""
    program = (
        "import sys; from pathlib import Path; from docker.utils.build import exclude_paths\n"
        "root = Path(sys.argv[1]); rules = (root / '.dockerignore').read_text().splitlines()\n"
        "print(*(p for p in exclude_paths(str(root), rules) if (root / p).is_file()), sep='\\n')"
    )
    said = ran([str(environments.python("deploy")), "-c", program, str(checkout)])
    assert said.returncode == 0, said.stderr
    return set(said.stdout.splitlines())


# Private files of a checkout in use. None of them may reach an image, a wheel or a commit.
PRIVATE = (
    ".env",
    ".env.production",
    "assets/deploy/.env",
    "assets/deploy/.env.bak",
    "assets/deploy/secrets/api_secret",
    "secrets/api_secret",
    "assets/secrets/api_secret",
    "data/landing/2026-11-20/manifest.json",
    "assets/deploy/data/warehouse/nightbook.duckdb",
    "assets/deploy/api_secret",
    "assets/deploy/values-with-password.yml",
)


@pytest.fixture(scope="module")
def used_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a git checkout of the tracked files, with an operator's secrets and data in it."""
    checkout = tmp_path_factory.mktemp("checkout")
    tracked = ran(["git", "-C", str(ROOT), "ls-files", "-z"]).stdout.split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    assert ran(["git", "init", "-q", str(checkout)]).returncode == 0
    assert ran(["git", "-C", str(checkout), "add", "-A"]).returncode == 0
    for name in PRIVATE:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("SECRET=3f9a\n", encoding="utf-8")
    return checkout


def test_an_image_gets_only_tracked_files_and_no_secret(used_checkout: Path) -> None:
    """A build gets exactly the tracked files that the Containerfile copies."""
    tracked = ran(["git", "-C", str(used_checkout), "ls-files"]).stdout.split("\n")
    copied = [
        source
        for line in (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert {"assets", "pipelines", "warehouse"} <= set(copied)
    expected = {name for name in tracked if name.startswith(tuple(copied))}
    assert context_of(used_checkout) - {".dockerignore"} == expected


def test_a_wheel_contains_no_secret_of_the_checkout(used_checkout: Path, tmp_path: Path) -> None:
    """A wheel includes data files by patterns, and no private file matches them."""
    program = (
        "from setuptools import Distribution\n"
        "made = Distribution({'script_name': 'setup.py'}); made.parse_config_files()\n"
        "build = made.get_command_obj('build_py'); build.ensure_finalized()\n"
        "print(*(f'{folder}/{name}' for _, folder, _, names in build.data_files "
        "for name in names), sep='\\n')"
    )
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=used_checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    names = said.stdout.splitlines()
    assert {"assets/deploy/compose.yaml", "assets/deploy/image.txt"} <= set(names), said.stderr
    assert not set(names) & set(PRIVATE)


def test_git_ignores_private_files_in_a_checkout(used_checkout: Path) -> None:
    """Git ignores settings, data and secrets, but not secrets in two files with unusual names."""
    found = ran(["git", "-C", str(used_checkout), "status", "--porcelain", "-uall"]).stdout
    seen = {line[3:] for line in found.splitlines() if line.startswith("??")}
    assert seen == {"assets/deploy/api_secret", "assets/deploy/values-with-password.yml"}


def pins(path: Path) -> dict[str, str]:
    """Return the names and versions in a file of pins."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [line.split()[0].split("==") for line in lines if "==" in line.split(";")[0]]
    return {name.lower().replace("_", "-"): version for name, version in found}


def test_the_packages_of_the_image_are_pinned_and_complete() -> None:
    """The packages that only the image has are pinned, hashed, tested and complete."""
    added, kept = pins(DEPLOY / "image.txt"), pins(ROOT / "constraints.txt")
    assert not added.keys() & kept.keys()
    text = (DEPLOY / "image.txt").read_text(encoding="utf-8")
    assert text.count("--hash=") > len(added)
    tried = pins(ROOT / "tests" / "environments" / "image.txt")
    assert added.items() <= tried.items(), "tests/environments/image.txt tries other versions"
    assert kept["dagster"].removeprefix("1.13.") == added["dagster-k8s"].removeprefix("0.29.")
    there = {name: Version(version) for name, version in (kept | added).items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for needed in map(Requirement, project["optional-dependencies"]["lakehouse"]):
        assert needed.specifier.contains(there[needed.name]), f"the image lacks {needed}"
    for one in distributions(path=[str(environments.packages("image"))]):
        if one.metadata["Name"].lower() not in added:
            continue
        for needed in map(Requirement, one.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                name = needed.name.lower().replace("_", "-")
                assert needed.specifier.contains(there[name]), f"{one.metadata['Name']}: {needed}"


def test_the_image_and_the_unit_start_the_same_daemon() -> None:
    """Containerfile and unit start the same daemon, and all files that the image copies exist."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0].isupper()]
    command = json.loads(next(words for name, words in lines if name == "CMD"))
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # as its documentation says
    unit.read(DEPLOY / "nightbook-daemon.service", encoding="utf-8")
    started = unit["Service"]["ExecStart"].replace("@PYTHON@", "python").replace("@HOME@", "/data")
    assert started.split() == command
    for words in (words.split() for name, words in lines if name == "COPY"):
        for source in () if words[0].startswith("--from") else words[:-1]:
            assert (DEPLOY.parents[1] / source).exists(), source
    bases = [words.split() for name, words in lines if name == "FROM"]
    stages = {words[-1] for words in bases if "AS" in words}
    for base in (words[0] for words in bases if words[0] not in stages):
        assert re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", base), base
    assert [words for name, words in lines if name == "USER"] == ["10001:10001"]


# The names that the chart's own schema, version 1.13, allows at each position. Helm rejects a name
# that is not in the schema or, worse, ignores it.
POD = {"image", "podSecurityContext", "securityContext", "volumes", "volumeMounts", "env"}
POD |= {"resources", "livenessProbe"}
CHART = {
    "": {"telemetry", "dagster-user-deployments", "runLauncher", "dagsterDaemon"}
    | {"dagsterWebserver", "global", "generatePostgresqlPasswordSecret", "postgresql", "busybox"},
    "global": {"postgresqlSecretName", "dagsterHome", "serviceAccountName"},
    "postgresql": {"enabled", "postgresqlHost", "postgresqlUsername", "postgresqlDatabase"}
    | {"image", "service", "postgresqlParams", "postgresqlScheme"},
    "busybox": {"image"},
    "runLauncher": {"type", "config"},
    "runLauncher.config": {"k8sRunLauncher"},
    "runLauncher.config.k8sRunLauncher": {"runK8sConfig", "resources", "securityContext", "labels"},
    "runLauncher.config.k8sRunLauncher.runK8sConfig": {"containerConfig", "podSpecConfig"},
    "telemetry": {"enabled"},
    "dagster-user-deployments": {"enabled", "enableSubchart", "imagePullSecrets", "deployments"}
    | {"serviceAccount"},
    "dagster-user-deployments.serviceAccount": {"create", "name", "annotations"},
    "dagster-user-deployments.deployments": {"name", "image", "port", "dagsterApiGrpcArgs", "env"}
    | {
        "envConfigMaps",
        "envSecrets",
        "volumes",
        "volumeMounts",
        "podSecurityContext",
        "securityContext",
    }
    | {"resources", "labels", "includeConfigInLaunchedRuns", "affinity", "deploymentStrategy"}
    | {"readinessProbe", "livenessProbe"},
    "dagsterDaemon": {"runCoordinator", "runMonitoring", "runRetries", "logFormat"} | POD,
    "dagsterDaemon.runCoordinator": {"enabled", "type", "config"},
    "dagsterDaemon.runCoordinator.config": {"queuedRunCoordinator"},
    "dagsterDaemon.runCoordinator.config.queuedRunCoordinator": {"maxConcurrentRuns"},
    "dagsterDaemon.runMonitoring": {"enabled", "startTimeoutSeconds", "pollIntervalSeconds"}
    | {"maxRuntimeSeconds"},
    "dagsterDaemon.runRetries": {"enabled", "maxRetries", "retryOnAssetOrOpFailure"},
    "dagsterWebserver": {"service", "readinessProbe"} | POD,
    "dagsterWebserver.service": {"type", "port", "annotations"},
}


def test_helm_values_match_the_schema_of_the_chart() -> None:
    """Every name in the example is one that the chart's schema allows at that position."""

    def see(place: str, content: Any) -> None:
        for one in content if isinstance(content, list) else [content]:
            if place in CHART and isinstance(one, dict):
                assert one.keys() <= CHART[place], place
                for name, inner in one.items():
                    see(f"{place}.{name}".removeprefix("."), inner)

    content = loaded("helm-values.yaml")
    see("", content)
    [deployment] = content["dagster-user-deployments"]["deployments"]
    assert deployment["dagsterApiGrpcArgs"] == ["-m", "assets.definitions"]
    claimed = {one["name"] for one in deployment["volumes"]}
    assert {one["name"] for one in deployment["volumeMounts"]} == claimed
    assert content["telemetry"] == {"enabled": False}
    # The chart's own database has the password `test`, and its images have no digest.
    assert content["generatePostgresqlPasswordSecret"] is False
    assert content["postgresql"]["enabled"] is False
    for part in ("postgresql", "busybox", "dagsterDaemon", "dagsterWebserver"):
        assert "@sha256:" in content[part]["image"]["tag"], part
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    [user] = {
        deployment["securityContext"]["runAsUser"],
        deployment["podSecurityContext"]["fsGroup"],
    }
    assert f"USER {user}:{user}\n" in text


def as_pods(content: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Pass the values to Dagster's own launcher of pods, in the way that the chart passes them."""
    [one] = content["dagster-user-deployments"]["deployments"]
    launched = content["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    context = {
        "image_pull_policy": one["image"]["pullPolicy"],
        "env_config_maps": [shelf["name"] for shelf in one["envConfigMaps"]],
        "env_secrets": [secret["name"] for secret in one["envSecrets"]],
        "service_account_name": content["dagster-user-deployments"]["serviceAccount"]["name"],
        **{name: one[key] for name, key in NAMES.items()},
        "run_k8s_config": {
            "pod_spec_config": launched["podSpecConfig"],
            "container_config": launched["containerConfig"],
        },
    }
    program = (
        "import json, sys; from dagster_k8s.container_context import K8sContainerContext\n"
        "K8sContainerContext.create_from_config({'k8s': json.loads(sys.argv[1])})"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, json.dumps(context)]
    return ran(command, PYTHONPATH=str(environments.packages("image")))


NAMES = {
    "env": "env",
    "volumes": "volumes",
    "volume_mounts": "volumeMounts",
    "resources": "resources",
    "labels": "labels",
}


def test_every_pod_has_the_limits_of_the_copy_job() -> None:
    """Code, nights, daemon and UI have the job's limits, probes, and the node of their volume."""
    job = manifests()["CronJob", "nightbook-copy"]["spec"]["jobTemplate"]["spec"]["template"]
    [copy] = job["spec"]["containers"]
    content = loaded("helm-values.yaml")
    [code] = content["dagster-user-deployments"]["deployments"]
    nights = content["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    of_nights = nights["podSpecConfig"], nights["containerConfig"]
    pods = [(one["podSecurityContext"], one) for one in (code, *_servers(content))]
    for pod, container in [*pods, (of_nights[0]["securityContext"], of_nights[1])]:
        assert job["spec"]["securityContext"].items() <= pod.items()
        assert copy["securityContext"].items() <= container["securityContext"].items()
    for one in (code, *_servers(content)):
        assert one["resources"]["limits"]["memory"]
        assert one["livenessProbe"]["periodSeconds"] >= one["livenessProbe"]["timeoutSeconds"]
        written = {mount["mountPath"] for mount in one["volumeMounts"]}
        assert {"/scratch", "/opt/dagster/dagster_home"} <= written
    # A ReadWriteOnce volume is on one node, so all of its pods have and require one label.
    assert of_nights[0]["affinity"] == code["affinity"]
    assert job["spec"]["containers"][0]["volumeMounts"]
    for affinity, labels in (
        (code["affinity"], code["labels"]),
        (job["spec"]["affinity"], job["metadata"]["labels"]),
    ):
        [rule] = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert rule["labelSelector"]["matchLabels"].items() <= labels.items()
        assert rule["topologyKey"] == "kubernetes.io/hostname"


def _servers(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [content["dagsterDaemon"], content["dagsterWebserver"]]


def test_network_rules_open_only_the_needed_ports() -> None:
    """UI and code accept connections only on their ports, and daemon and copy accept none."""
    policies = {name: one["spec"] for (kind, name), one in manifests().items() if "Policy" in kind}
    content = loaded("helm-values.yaml")
    [code] = content["dagster-user-deployments"]["deployments"]
    assert policies["nightbook-code"]["podSelector"]["matchLabels"] == code["labels"]
    [reached] = policies["nightbook-code"]["ingress"]
    assert reached["ports"] == [{"port": code["port"]}]
    [reached] = policies["nightbook-web"]["ingress"]
    assert reached["ports"] == [{"port": content["dagsterWebserver"]["service"]["port"]}]
    assert content["dagsterWebserver"]["livenessProbe"]["httpGet"]["port"] == 3000
    for name in ("nightbook-daemon", "nightbook-copy"):
        assert "Ingress" in policies[name]["policyTypes"]
        assert "ingress" not in policies[name]


@pytest.mark.torture
def test_the_launcher_of_dagster_accepts_the_helm_values() -> None:
    """Dagster's launcher accepts the volumes, variables and secrets, and rejects a wrong name."""
    content = loaded("helm-values.yaml")
    said = as_pods(content)
    assert said.returncode == 0, said.stderr
    volume = content["dagster-user-deployments"]["deployments"][0]["volumes"][0]
    volume["persistentVolumeClam"] = volume.pop("persistentVolumeClaim")
    assert "persistentVolumeClam" in as_pods(content).stderr


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the manifests that supplement the chart, by kind and name."""
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}


def read_as_kubernetes(manifest: dict[str, Any], version: str) -> str:
    """Return the errors of the schemas of a Kubernetes version about a manifest."""
    program = (
        "import json, sys, kubernetes_validate\n"
        "kubernetes_validate.validate(json.loads(sys.argv[1]), sys.argv[2], strict=True)"
    )
    command = [str(environments.python("kubernetes")), "-c", program, json.dumps(manifest), version]
    return ran(command).stderr


@pytest.mark.torture
@pytest.mark.parametrize("version", some_daily(["1.37", "1.30"], 2))
def test_kubernetes_schemas_accept_the_manifests(version: str) -> None:
    """The newest and an older Kubernetes API accept each manifest and reject a wrong name."""
    for name, manifest in manifests().items():
        assert read_as_kubernetes(manifest, version) == "", name
    job = manifests()["CronJob", "nightbook-copy"]
    job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicie"] = "Never"
    assert "restartPolicie" in read_as_kubernetes(job, version)


def test_every_resource_that_a_pod_names_exists() -> None:
    """The claims, accounts and settings that pods name exist, and readers need no API key."""
    there = manifests()
    values = loaded("helm-values.yaml")["dagster-user-deployments"]
    [deployment] = values["deployments"]
    pod = there["CronJob", "nightbook-copy"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    for volume in (*deployment["volumes"], *pod["volumes"]):
        claim = volume.get("persistentVolumeClaim")
        assert claim is None or ("PersistentVolumeClaim", claim["claimName"]) in there
    for account in (values["serviceAccount"]["name"], pod["serviceAccountName"]):
        assert ("ServiceAccount", account) in there
    shelves = [*deployment["envConfigMaps"], *(one["configMapRef"] for one in container["envFrom"])]
    [given] = [there["ConfigMap", name] for name in {one["name"] for one in shelves}]
    variables = given["data"] | {one["name"]: one["value"] for one in container["env"]}
    settings = read(environment(ROOT / "nowhere", variables), api=False)
    assert settings.shelf is not None
    assert settings.shelf.url == given["data"]["NIGHTBOOK_LAKE"]
    assert container["command"][1] in COMMANDS
    image = deployment["image"]
    assert container["image"] == f"{image['repository']}:{image['tag']}"
    user = pod["securityContext"]
    assert user["runAsUser"] == user["fsGroup"] == deployment["securityContext"]["runAsUser"]


def test_install_writes_units_and_starts_nothing(
    watched: Callable[..., Watched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The units name this interpreter and home but no settings, and the next step is shown."""
    keeper: Keeper = watched().keeper
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{name}={value}\n" for name, value in keeper.variables.items())
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    said: Said = keeper("install", "--into", str(tmp_path / "units"))
    assert said.code == 0, said.err
    assert "Nothing was started" in said.out
    assert "enable --now nightbook-daemon.service" in said.out
    for name in UNITS:
        text = (tmp_path / "units" / name).read_text(encoding="utf-8")
        assert f"ExecStart={sys.executable} -m " in text
        assert f"NIGHTBOOK_HOME={keeper.home}" in text
        for secret in (keeper.variables["NIGHTBOOK_API_SECRET"], "token-5b1d"):
            assert secret not in text + said.out


def test_install_rejects_settings_that_exist_only_in_the_shell(
    watched: Callable[..., Watched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If settings exist only in this shell, nothing is written and the missing file is named."""
    monkeypatch.chdir(tmp_path)
    said = watched().keeper("install", "--into", str(tmp_path / "units"))
    assert (said.code, said.out) == (2, "")
    assert f"read their settings only from {tmp_path / '.env'}" in said.err
    assert "NIGHTBOOK_API_KEY is not set" in said.err
    assert not (tmp_path / "units").exists()


def test_a_home_with_a_space_in_its_path_is_rejected(tmp_path: Path) -> None:
    """A home with a space or a percent sign is rejected before anything is written."""
    with pytest.raises(UnsuitableHost, match="Nothing was written"):
        render_unit(UNITS[0], Layout(tmp_path / "my home"), tmp_path, is_system=False)


def test_system_units_run_as_the_owner_of_the_home(tmp_path: Path) -> None:
    """System units run as the owner of the home. If the home does not exist, nothing is written."""
    with pytest.raises(UnsuitableHost, match="Nothing was written"):
        render_unit(UNITS[0], Layout(tmp_path / "none"), tmp_path, is_system=True)
    text = render_unit(UNITS[0], Layout(tmp_path), tmp_path, is_system=True)
    assert f"User={tmp_path.owner()}\n" in text


def test_system_units_need_an_owner_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the owner of a home has no name here, the message explains that and the next command."""

    def nobody(_: Path) -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("pathlib.Path.owner", nobody)
    with pytest.raises(UnsuitableHost, match=r"Nothing was written.*chown -R USER"):
        render_unit(UNITS[0], Layout(tmp_path), tmp_path, is_system=True)
