"""Everything shipped for running unattended is read by the tool that will read it."""

import configparser
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from assets.commands.install import UNITS, NotInstalled, rendered
from tests.keeper import Keeper, Said
from tests.operator.conftest import Watched
from warehouse.layout import Layout

DEPLOY = Path(__file__).parents[2] / "assets" / "deploy"
READ_HERE = {
    *UNITS,
    "Containerfile",
    "compose.yaml",
    "dagster.yaml",
    "dagster-postgres.yaml",
    "helm-values.yaml",
}


def loaded(name: str) -> dict[str, Any]:
    """A YAML file of deploy."""
    content: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return content


def test_every_shipped_file_is_read_here() -> None:
    """A file that is put into deploy without a test of it is found."""
    assert {path.name for path in DEPLOY.iterdir() if path.is_file()} == READ_HERE


@pytest.mark.parametrize("is_system", [True, False])
def test_units_are_good_for_systemd(tmp_path: Path, *, is_system: bool) -> None:
    """The tool of systemd finds nothing to say about the units as they are installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    home = tmp_path / "home"
    home.mkdir()
    files = []
    for name in UNITS:
        files.append(tmp_path / name)
        text = rendered(name, Layout(home), tmp_path, is_system=is_system)
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


def test_a_wrong_unit_is_found_by_systemd(tmp_path: Path) -> None:
    """The tool that finds nothing wrong does find a wrong line."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    unit = tmp_path / "nightbook-wrong.service"
    unit.write_text("[Service]\nExecStart=/no/such/program\nRestart=sometimes\n", encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "nightbook-wrong" in ran.stderr


@pytest.mark.parametrize("name", ["dagster.yaml", "dagster-postgres.yaml"])
def test_instances_are_good_for_dagster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Dagster takes the instance file; that with PostgreSQL where its package is there."""
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


def test_compose_is_good_for_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One daemon, a UI on loopback only, and every name that is used is declared."""
    content = loaded("compose.yaml")
    services = content["services"]
    assert set(services) == {"daemon", "web", "postgres"}
    assert services["web"]["ports"] == ["127.0.0.1:3000:3000"]
    assert not services["daemon"].get("ports")
    for one in services.values():
        assert set(one.get("secrets", [])) <= set(content["secrets"])
        assert set(one.get("depends_on", {})) <= set(services)
        named = [volume.partition(":")[0] for volume in one["volumes"]]
        assert {name for name in named if not name.startswith(".")} <= set(content["volumes"])
    build = services["daemon"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve().is_file()
    assert (DEPLOY / "dagster-postgres.yaml").is_file()


def test_compose_is_taken_by_compose(tmp_path: Path) -> None:
    """`docker compose config` takes the file, where it is there."""
    tool = ["docker", "compose"]
    if (
        shutil.which("docker") is None
        or subprocess.run([*tool, "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("docker compose is not on this machine")
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "deploy" / ".env").write_text("DAGSTER_POSTGRES_PASSWORD=x\n", encoding="utf-8")
    ran = subprocess.run(
        [*tool, "config", "--format", "json"],
        cwd=tmp_path / "deploy",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["services"]["daemon"]["image"] == "nightbook"


def test_the_image_runs_what_the_unit_runs() -> None:
    """Containerfile and unit start the same daemon; all that is copied into the image exists."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0].isupper()]
    command = json.loads(next(words for name, words in lines if name == "CMD"))
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # as its documentation says
    unit.read(DEPLOY / "nightbook-daemon.service", encoding="utf-8")
    assert unit["Service"]["ExecStart"].replace("@PYTHON@", "python").split() == command
    for words in (words.split() for name, words in lines if name == "COPY"):
        for source in words[:-1]:
            assert (DEPLOY.parents[1] / source).exists(), source
    assert [words for name, words in lines if name == "USER"] == ["nightbook"]


def test_helm_values_are_taken_by_helm() -> None:
    """The example is YAML whose one deployment starts our definitions; Helm's own word if there."""
    content = loaded("helm-values.yaml")
    [deployment] = content["dagster-user-deployments"]["deployments"]
    assert deployment["dagsterApiGrpcArgs"] == ["-m", "assets.definitions"]
    claimed = {one["name"] for one in deployment["volumes"]}
    assert {one["name"] for one in deployment["volumeMounts"]} == claimed
    assert content["telemetry"] == {"enabled": False}
    if shutil.which("helm") is None:
        pytest.skip("helm is not on this machine: read as YAML only")


def test_install_writes_units_and_starts_nothing(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    """The units name this interpreter and home, no setting is in them, and what to type is said."""
    keeper: Keeper = watched().keeper
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


def test_a_path_that_a_unit_cannot_hold_is_refused(tmp_path: Path) -> None:
    """A home with a space or a percent sign is refused before anything is written."""
    with pytest.raises(NotInstalled, match="Nothing was written"):
        rendered(UNITS[0], Layout(tmp_path / "my home"), tmp_path, is_system=False)


def test_a_system_needs_a_home_that_is_somebodys(tmp_path: Path) -> None:
    """Units of the system run as the owner of the home; without a home nothing is written."""
    with pytest.raises(NotInstalled, match="Nothing was written"):
        rendered(UNITS[0], Layout(tmp_path / "none"), tmp_path, is_system=True)
    text = rendered(UNITS[0], Layout(tmp_path), tmp_path, is_system=True)
    assert f"User={tmp_path.owner()}\n" in text
