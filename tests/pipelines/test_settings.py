"""Tests of the settings: all errors are reported at once, and no error contains a secret."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines import settings
from pipelines.edge import access
from pipelines.schedule import is_schedule
from pipelines.settings import InvalidSettings
from tests.pipelines.edge.test_transport import CERTIFICATE

SECRET = "canary-secret-9f31"
GOOD = {
    "NIGHTBOOK_API_URL": "https://api.example.com",
    "NIGHTBOOK_API_KEY": "canary-key-77",
    "NIGHTBOOK_API_SECRET": SECRET,
}


def complaints(changes: dict[str, str], *, api: bool = True) -> tuple[str, ...]:
    """Return the errors about valid settings with these changes."""
    try:
        settings.read(GOOD | changes, api=api)
    except InvalidSettings as wrong:
        message, found = str(wrong), wrong.complaints
    else:
        return ()
    assert SECRET not in message
    assert len(message) < 600
    return found


def test_optional_settings_have_the_documented_defaults() -> None:
    """Home, time zone, schedule, concurrency and deadline have the defaults of the handbook."""
    read = settings.read(GOOD, api=True)
    assert read.home == Path("data").absolute()
    assert (str(read.timezone), read.schedule) == ("UTC", "15 2,4,6 * * *")
    assert (read.concurrency, read.deadline) == (8, 1800)
    assert read.access
    assert (read.access.url, read.access.key, read.access.secret) == tuple(GOOD.values())


def test_neither_key_nor_secret_is_in_a_repr() -> None:
    """No `repr` of the settings contains the key or the secret, because it could be logged."""
    read = settings.read(GOOD, api=True)
    for text in (repr(read), str(read), repr(read.access)):
        assert SECRET not in text
        assert "canary-key" not in text


def test_all_wrong_settings_are_in_one_message() -> None:
    """All missing or wrong variables are in one message, with a note that nothing was written."""
    with pytest.raises(InvalidSettings) as wrong:
        settings.read({"NIGHTBOOK_TIMEZONE": "Mars", "NIGHTBOOK_DEADLINE": "soon"}, api=True)
    assert len(wrong.value.complaints) == 5
    message = str(wrong.value)
    for name in ("API_URL", "API_KEY", "API_SECRET", "TIMEZONE", "DEADLINE"):
        assert f"NIGHTBOOK_{name}" in message
    assert "Nothing was read or written" in message
    assert "web platform" in message


def test_commands_without_the_api_need_no_key() -> None:
    """Commands that do not use the API, such as a query, need no key."""
    assert settings.read({}, api=False).access is None


def test_an_empty_variable_counts_as_unset() -> None:
    """An empty variable counts as unset, so an empty home is not the working directory."""
    empty = dict.fromkeys(settings.DEFAULTS, " ")
    assert settings.read(empty, api=False) == settings.read({}, api=False)
    assert len(complaints({"NIGHTBOOK_API_KEY": ""})) == 1


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("API_URL", "api.example.com", "not a valid origin"),
        ("API_URL", "ftp://api.example.com", "not a valid origin"),
        ("API_URL", "https://", "not a valid origin"),
        ("API_URL", "https://[::1", "not a valid origin"),
        ("API_URL", "https://a:99999", "not a valid origin"),
        ("API_URL", "https://a:0", "not a valid origin"),
        ("API_URL", "https://a b", "not a valid origin"),
        ("API_URL", "https://a\nb.com", "not a valid origin"),
        ("API_URL", "https://a.example/edge/v1beta", "more than an origin"),
        ("API_URL", "https://a.example?", "more than an origin"),
        ("API_URL", "https://a.example#x", "more than an origin"),
        ("API_URL", f"https://me:{SECRET}@a.example", "more than an origin"),
        ("API_URL", f"ftp://me:{SECRET}@a.example:99999", "more than an origin"),
        ("API_URL", f"me:{SECRET}@a.example", "not a valid origin"),
        ("API_URL", "http://api.example.com", "plain http, which is allowed only for"),
        ("API_URL", "http://localhost.example.com", "plain http"),
        ("API_URL", "http://10.0.0.1", "plain http"),
        ("API_URL", "http://0.0.0.0", "plain http"),
        ("API_KEY", "with space", "Copy it again"),
        ("API_KEY", "k\u00e9y", "Copy it again"),
        ("API_SECRET", f"{SECRET}\n{SECRET}", "Copy it again"),
        ("API_SECRET", f"{SECRET}\udcff", "Copy it again"),
        ("API_SECRET", f"{SECRET}\u200b", "Copy it again"),
        ("LAKE", "/mnt/book", "not the address of an object store"),
        ("LAKE", "https://bucket.example.com/book", "not the address of an object store"),
        (
            "LAKE",
            f"s3://me:{SECRET}@bucket/book",
            "contains a user name, password, query or fragment",
        ),
        (
            "LAKE",
            f"az://container/book?sig={SECRET}",
            "contains a user name, password, query or fragment",
        ),
        ("LAKE", "s3://", "does not name a location"),
        ("LAKE", "s3://bucket/../other", "does not name a location"),
        ("LAKE", "file:///", "does not name a folder"),
        ("TIMEZONE", "Mars/Olympus", "time zone database"),
        ("TIMEZONE", "../../etc/passwd", "time zone database"),
        ("TIMEZONE", "Europe", "time zone database"),
        ("TIMEZONE", "/etc/localtime", "time zone database"),
        ("HOME", "~nobody-of-that-name/book", "this user has no home"),
        ("HOME", "/srv/book[1]", "the path must not contain [ ], which"),
        ("HOME", "/srv/20%20book", "Choose a simpler path"),
        ("HOME", "/srv/book?", "Choose a simpler path"),
        ("HOME", "/srv/back\\slash", "Choose a simpler path"),
        ("CONCURRENCY", "0", "from 1 to 64"),
        ("CONCURRENCY", "65", "from 1 to 64"),
        ("CONCURRENCY", "0000000019999", "from 1 to 64"),
        ("CONCURRENCY", "\u0668", "from 1 to 64"),
        ("CONCURRENCY", "1.5", "from 1 to 64"),
        ("NATIVE_NIGHTS", "0", "from 1 to 100000"),
        ("NATIVE_NIGHTS", "1", "Use 2 or more, or all"),
        ("NATIVE_NIGHTS", "some", "from 1 to 100000"),
        ("VERSIONS_GB", "0", "from 1 to 100000"),
        ("WORKBOOK_ROWS", "none", "from 1 to 100000000"),
        ("DEADLINE", "9" * 5000, "from 1 to 86400"),
        ("DEADLINE", "-1", "from 1 to 86400"),
        ("SCHEDULE", "every night", "five cron fields"),
    ],
)
def test_the_error_about_a_wrong_setting_names_a_valid_value(
    name: str, value: str, word: str
) -> None:
    """A wrong setting results in one error, which names the variable and the expected value."""
    [complaint] = complaints({f"NIGHTBOOK_{name}": value})
    assert complaint.startswith(f"NIGHTBOOK_{name} ")
    assert word in complaint


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:8080", "http://localhost:1", "http://LOCALHOST", "http://[::1]:9"),
        *("http://127.9.9.9", "https://api.example.com/", "https://API.example.com:8443"),
    ],
)
def test_plain_http_is_accepted_for_this_machine(url: str) -> None:
    """Plain HTTP is accepted for every name of this machine, and https for all machines."""
    assert complaints({"NIGHTBOOK_API_URL": url}) == ()


def test_a_remote_store_must_use_https(monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint of a store must use https, unless it is this machine.

    No `repr` contains the keys of the store.
    """
    shelf = {"NIGHTBOOK_LAKE": "s3://bucket/book", "AWS_SECRET_ACCESS_KEY": SECRET}
    here = shelf | {"AWS_ENDPOINT_URL": "http://127.0.0.1:8333"}
    read = settings.read({"NIGHTBOOK_HOME": "data", **here}, api=False)
    assert SECRET not in repr(read)
    [problem] = complaints(shelf | {"AWS_ENDPOINT_URL": "http://store.example.com"})
    assert "https" in problem


@pytest.mark.parametrize(
    "text",
    [
        *("15 2 * * *", "*/5 * * * *", "0 0,12 1-15 * mon-fri", "0 2 * JAN,jul SUN", "0 0 1 1 7"),
        *("59 23 31 12 6", "0-30/10 * * * *", " 5  4\t* * * "),
        *("0 0 29 2 *", "0 0 29 feb mon", "0 0 30 4 *", "0 0 31 2,3 *", "0 0 30,1 2 *"),
        *("0 0 31 */2 *", "0 0 29/2 2 *", "0 0 */30 2 1", "0 0 30-31 4-6 *"),
    ],
)
def test_cron_schedules_are_accepted(text: str) -> None:
    """A schedule may contain numbers, names, lists, ranges and steps."""
    assert is_schedule(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *"),
        *("* * * 13 *", "* * * * 8", "a * * * *", "*/0 * * * *", "5- * * * *", "9-5 * * * *"),
        *("1-2-3 * * * *", "1,,2 * * * *", "@daily", "* * * foo *", "\u0661 * * * *", "*/ * * * *"),
        *("-1 * * * *", "1.5 * * * *", "99999999999999999999 * * * *", "mon * * * *"),
        *("0 0 30 2 *", "0 0 31 4 *", "0 0 31 2 1", "0 0 31 4 1", "0 0 31 apr,jun,sep,nov *"),
        *("0 0 30-31 2 *", "0 0 31 2-2 *", "0 0 30/1 2 *", "0 0 30,31 feb mon-fri"),
    ],
)
def test_invalid_schedules_are_refused(text: str) -> None:
    """A schedule that would never run, or that only Dagster would refuse, is refused."""
    assert not is_schedule(text)


def secret_file(folder: Path, content: bytes, mode: int = 0o600) -> dict[str, str]:
    """Return settings whose secret is in a file."""
    path = folder / f"{SECRET}.txt"
    path.write_bytes(content)
    path.chmod(mode)
    return {"NIGHTBOOK_API_SECRET": "", "NIGHTBOOK_API_SECRET_FILE": str(path)}


def test_the_secret_may_be_in_a_file(tmp_path: Path) -> None:
    """A secret file may end with a newline, which is not part of the secret."""
    read = settings.read(GOOD | secret_file(tmp_path, f"{SECRET}\n".encode()), api=True)
    assert read.access
    assert read.access.secret == SECRET


SECRETS = ["a b  c", "schlüssel € 秘密", 'it\'s "quoted" #7 $x \\n', "nbsp\u00a0in it", "🦊 fox"]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_may_have_any_visible_characters(tmp_path: Path, secret: str) -> None:
    """A secret with any visible characters is the same from the environment, a file and `.env`.

    Such a secret is possible because it is never sent in a header (5.2.6).
    """
    expected = {"NIGHTBOOK_API_SECRET": secret}
    quoted = secret.replace("\\", "\\\\").replace("'", "\\'")
    (tmp_path / ".env").write_text(f"NIGHTBOOK_API_SECRET='{quoted}'\n", encoding="utf-8")
    assert settings.environment(tmp_path, {}) == expected
    assert settings.environment(tmp_path / "none", expected) == expected
    files = [f"{secret}\r\n".encode(), f" {secret} \n".encode(), f"{secret}\n".encode("utf-8-sig")]
    given = [GOOD | expected, *(GOOD | secret_file(tmp_path, content) for content in files)]
    for variables in given:
        read = settings.read(variables, api=True)
        assert read.access
        assert read.access.secret == secret


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o601])
def test_a_secret_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A secret file with any permission for other users is refused, with the command to type."""
    [complaint] = complaints(secret_file(tmp_path, SECRET.encode(), mode))
    assert "chmod 600" in complaint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a file of root")
@pytest.mark.parametrize(
    ("mode", "owner", "advice"),
    [
        *[(mode, 0, "") for mode in (0o400, 0o440, 0o640)],
        *[(mode, 0, "Mount it with mode 0440") for mode in (0o444, 0o644, 0o460, 0o450, 0o404)],
        *[(mode, 1000, "Run chmod 600") for mode in (0o440, 0o444)],
        *[(mode, 1001, "Copy it to a file that you own") for mode in (0o440, 0o444)],
    ],
)
def test_a_mounted_secret_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, advice: str
) -> None:
    """A secret of root that the group may read is accepted. Other advice can be followed."""
    changes = secret_file(tmp_path, SECRET.encode(), mode)
    os.chown(changes["NIGHTBOOK_API_SECRET_FILE"], owner, 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = complaints(changes) if advice else []
    assert [one for one in found if advice not in one] == []
    assert bool(found) == bool(advice)
    if not advice:
        assert settings.read(GOOD | changes, api=True).access


@pytest.mark.parametrize(("mode", "is_accepted"), [(0o440, True), (0o444, False)])
def test_a_secret_on_a_read_only_mount_needs_no_chmod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, is_accepted: bool
) -> None:
    """Nobody can change the mode of a file on a read-only mount, not even its owner or root."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    changes = secret_file(tmp_path, SECRET.encode(), mode)
    if is_accepted:
        assert settings.read(GOOD | changes, api=True).access
    else:
        [complaint] = complaints(changes)
        assert "chmod 600" not in complaint


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "not a text file"),
        (f"{SECRET}\n{SECRET}".encode(), "Copy it again"),
        (b"x" * (access.MAX_SECRET_SIZE + 1), "not a small text file"),
    ],
)
def test_a_secret_file_with_invalid_content_is_refused(
    tmp_path: Path, content: bytes, word: str
) -> None:
    """A secret file with invalid content is refused, and the error does not quote the content."""
    [complaint] = complaints(secret_file(tmp_path, content))
    assert word in complaint


def test_an_unreadable_secret_file_is_refused_without_its_path(tmp_path: Path) -> None:
    """If the secret file cannot be read, the error omits the path, which may be the secret."""
    for name in (SECRET, str(tmp_path / SECRET), str(tmp_path), f"~{SECRET}"):
        changes = {"NIGHTBOOK_API_SECRET": "", "NIGHTBOOK_API_SECRET_FILE": name}
        [complaint] = complaints(changes)
        assert "NIGHTBOOK_API_SECRET_FILE" in complaint


def test_a_file_of_a_private_authority_must_have_certificates(tmp_path: Path) -> None:
    """The file is checked before anything is sent, and the complaint says what is wrong."""
    file = tmp_path / "ca.pem"
    file.write_text(CERTIFICATE)
    read = settings.read(GOOD | {"NIGHTBOOK_CA_FILE": str(file)}, api=True)
    assert read.access
    assert read.access.ca_file == file
    file.write_text("not a certificate")
    [complaint] = complaints({"NIGHTBOOK_CA_FILE": str(file)})
    assert "no certificates in PEM format" in complaint
    [complaint] = complaints({"NIGHTBOOK_CA_FILE": str(tmp_path / "missing")})
    assert "No such file" in complaint


def test_a_secret_and_a_secret_file_are_refused_together() -> None:
    """If both a secret and a secret file are set, the settings are refused."""
    [complaint] = complaints({"NIGHTBOOK_API_SECRET_FILE": "somewhere"})
    assert "both set" in complaint


def test_the_environment_overrides_dotenv(tmp_path: Path) -> None:
    """Values in `.env` are read literally, including dollar signs, but the environment wins.

    Variables that are not nightbook's are ignored.
    """
    (tmp_path / ".env").write_text(
        "NIGHTBOOK_API_SECRET='a${HOME}$b'\nNIGHTBOOK_TIMEZONE=Europe/Zurich\nOTHER=1\n"
    )
    process = {"NIGHTBOOK_TIMEZONE": "Asia/Tokyo", "PATH": "/bin"}
    assert settings.environment(tmp_path, process) == {
        "NIGHTBOOK_API_SECRET": "a${HOME}$b",
        "NIGHTBOOK_TIMEZONE": "Asia/Tokyo",
    }


@pytest.mark.parametrize("empty", ["", " ", "\t\n"])
def test_an_empty_variable_does_not_override_dotenv(tmp_path: Path, empty: str) -> None:
    """An empty variable counts as unset, so it does not override the value in `.env`."""
    (tmp_path / ".env").write_text("NIGHTBOOK_TIMEZONE=Asia/Tokyo\nNIGHTBOOK_HOME=/srv/book\n")
    process = {"NIGHTBOOK_TIMEZONE": empty, "NIGHTBOOK_HOME": "/here", "NIGHTBOOK_DEADLINE": empty}
    found = settings.environment(tmp_path, process)
    assert found == {"NIGHTBOOK_TIMEZONE": "Asia/Tokyo", "NIGHTBOOK_HOME": "/here"}


def test_without_dotenv_only_the_environment_is_used(tmp_path: Path) -> None:
    """If there is no `.env` file, only the environment is used."""
    assert settings.environment(tmp_path, {"NIGHTBOOK_HOME": "x"}) == {"NIGHTBOOK_HOME": "x"}


def test_kubernetes_service_variables_are_ignored(tmp_path: Path) -> None:
    """Variables that Kubernetes adds for a nightbook service are ignored, but typos are not."""
    service = {
        "NIGHTBOOK_SERVICE_HOST": "10.0.0.1",
        "NIGHTBOOK_SERVICE_PORT_GRPC": "3030",
        "NIGHTBOOK_PORT": "tcp://10.0.0.1:3030",
        "NIGHTBOOK_PORT_3030_TCP_ADDR": "10.0.0.1",
        "NIGHTBOOK_DAGSTER_WEBSERVER_PORT_80_TCP": "tcp://10.0.0.2:80",
    }
    cluster = {"KUBERNETES_SERVICE_HOST": "10.0.0.3", "NIGHTBOOK_HOM": "/data"}
    assert settings.environment(tmp_path, service | cluster) == {"NIGHTBOOK_HOM": "/data"}
    assert settings.environment(tmp_path, service) == service


def test_a_binary_dotenv_is_reported_without_a_traceback(tmp_path: Path) -> None:
    """If `.env` is not text, the error says so in a message without a traceback."""
    (tmp_path / ".env").write_bytes(b"NIGHTBOOK_API_KEY=\xff\xfe\n")
    with pytest.raises(InvalidSettings, match=r"\.env cannot be read"):
        settings.environment(tmp_path, {})


def test_a_folder_instead_of_dotenv_is_refused(tmp_path: Path) -> None:
    """A folder `.env`, as Docker makes it for a missing file, is not taken for no settings."""
    (tmp_path / ".env").mkdir()
    with pytest.raises(InvalidSettings, match=r"\.env cannot be read: Is a directory"):
        settings.environment(tmp_path, {})
