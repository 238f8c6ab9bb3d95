"""Tests of delivery: a mail with files at a real SMTP server, and a failure that is an alert."""

import email
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from email.message import Message
from pathlib import Path

import openpyxl
import pytest

from assets.monitoring.alerts import send_by_apprise
from assets.monitoring.delivery import deliver_book
from pipelines.landing.fingerprint import newest_fingerprint
from pipelines.settings import InvalidSettings, read
from tests.support.operator import DEAD, Receiver, Watched
from tests.support.operator_home import SECOND, THIRD, Keeper, Sandbox
from tests.system.test_nightly_reconciliation import OPEN, later, planted
from warehouse.contract.states import ACCEPTED

Make = Callable[..., Watched]
SENT = f"{THIRD:%Y%m%d}T021500Z"


class Mailbox(socketserver.ThreadingTCPServer):
    """An SMTP server on loopback that keeps all mails, or refuses them."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MailHandler)
        self.mails: list[Message] = []
        self.is_full = False

    @property
    def address(self) -> str:
        """The channel that sends mails here."""
        return f"mailto://127.0.0.1:{self.server_address[1]}?to=cfo@example.com&from=n@example.com"


class MailHandler(socketserver.StreamRequestHandler):
    """One SMTP connection."""

    def handle(self) -> None:
        """Receive one mail."""
        box = self.server
        assert isinstance(box, Mailbox)
        self._say("220 here")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self._say("354 go")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                if not box.is_full:
                    box.mails.append(email.message_from_bytes(b"".join(lines)))
                self._say("452 full" if box.is_full else "250 kept")
            elif word == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """Start an SMTP server."""
    with Mailbox() as box:
        thread = threading.Thread(target=box.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield box
        box.shutdown()
        thread.join()


def delivering(watched: Make, deliver: str, **more: str) -> Watched:
    """Return a home with two nights that delivers the next ones."""
    home = watched()
    settings = {"NIGHTBOOK_DELIVER": deliver, **more}
    return replace(home, keeper=replace(home.keeper, more=home.keeper.more | settings))


def parts(mail: Message) -> dict[str, bytes]:
    """Return the files and the text of a mail."""
    return {
        part.get_filename() or part.get_content_type(): bytes(part.get_payload(decode=True))
        for part in mail.walk()
        if not part.is_multipart()
    }


def test_a_mail_brings_report_and_workbook(
    watched: Make, receiver: Receiver, mailbox: Mailbox, tmp_path: Path
) -> None:
    """One mail has the whole report and workbook, a webhook gets the summary, both only once."""
    home = delivering(watched, f"both {mailbox.address}, report {receiver.channel}")
    assert home.keeper.run(THIRD).code == 0
    home.look()
    [mail] = mailbox.mails
    found = parts(mail)
    layout = home.keeper.layout
    assert str(mail["Subject"]) == f"nightbook: the book of {THIRD}"
    assert found[f"report-{THIRD}.html"] == (layout.reports / "latest.html").read_bytes()
    workbook = tmp_path / "workbook.xlsx"
    workbook.write_bytes(found[f"positions-{THIRD}.xlsx"])
    assert "Holdings" in openpyxl.load_workbook(workbook).sheetnames
    body = found["text/plain"].decode()
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the book of {THIRD}"
    for text in (body.replace("\r\n", "\n"), words):
        assert f"The book of {THIRD} ({SENT}) was published.\n" in text
        assert "portfolios, " in text
        assert f"Fingerprint of all nights so far: {newest_fingerprint(layout)}" in text


def test_a_failed_delivery_is_an_alert_by_the_next_channel(
    watched: Make, receiver: Receiver, mailbox: Mailbox
) -> None:
    """If the mail server refuses the mail, an alert says so once, and a later check sends it."""
    home = delivering(watched, f"workbook {mailbox.address}")
    mailbox.is_full = True
    assert home.keeper.run(THIRD).code == 0
    home.look()
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: not delivered: the book of {THIRD}"
    assert "channel 1 (mailto) did not accept the message" in words
    assert "These channels failed: channel 1 (json)." in words  # the first channel for alerts
    mailbox.is_full = False
    home.look()
    assert [set(parts(mail)) for mail in mailbox.mails] == [
        {"text/plain", f"positions-{THIRD}.xlsx"}
    ]


def test_a_withdrawn_book_is_corrected(watched: Make, receiver: Receiver, mailbox: Mailbox) -> None:
    """If a delivered book is rejected, the same channel gets a correction, and only once."""
    home = delivering(watched, f"report {mailbox.address}")
    assert home.keeper.run(THIRD).code == 0
    assert home.keeper("reject", SENT, "--why", "<b>wrong</b> prices").code == 0
    home.look()
    home.look()
    first, second = mailbox.mails
    assert set(parts(first)) == {"text/plain", f"report-{THIRD}.html"}
    assert str(second["Subject"]) == f"nightbook: the book of {THIRD} was withdrawn"
    assert "rejected it: (b)wrong(/b) prices." in parts(second)["text/plain"].decode()
    assert receiver.titles == [f"the book of {THIRD} was rejected"]


def test_an_unfinished_run_is_not_delivered(watched: Make, mailbox: Mailbox) -> None:
    """A book whose files are not written yet waits for them, but not longer than two hours."""
    home = delivering(watched, f"both {mailbox.address}")
    assert home.night(THIRD) == ACCEPTED  # this publishes the book and writes no files
    assert mailbox.mails == []
    home.keeper.sandbox.clock.night(THIRD, hour=5)
    home.look()
    [mail] = mailbox.mails
    assert set(parts(mail)) == {"text/plain"}
    assert "A file is missing" in parts(mail)["text/plain"].decode()


def test_an_owner_is_reminded_of_open_breaks_once_a_day(watched: Make, receiver: Receiver) -> None:
    """An owner with an address gets the number and age of the open breaks, once a day."""
    home = watched()
    more = {"NIGHTBOOK_OWNERS": f"ADA={receiver.channel}, Bo={DEAD}"}
    home = replace(home, keeper=replace(home.keeper, more=home.keeper.more | more))
    planted(home.keeper)
    assert later(home.keeper, "reconcile", "run").code == OPEN
    (workbook,) = (home.keeper.home / "reconcile/out").rglob("recon_*.xlsx")
    edited = openpyxl.load_workbook(workbook)
    owner = [cell.value for cell in edited["Breaks"][2]].index("Owner")
    edited["Breaks"].cell(3, owner + 1).value = "Ada"
    edited.save(workbook)
    assert later(home.keeper, "reconcile", "run").code == OPEN
    receiver.alerts.clear()
    home.look()
    home.look()
    [(title, words)] = [said for said in receiver.alerts if "open breaks" in said[0]]
    assert title == "nightbook: open breaks of ADA"
    assert f"ledger of {SECOND}: 1 open break, the oldest 0 days old" in words
    home.keeper.sandbox.clock.moment += timedelta(days=1)
    home.look()
    assert "open breaks of ADA" in receiver.titles


def test_nothing_is_delivered_without_the_setting(watched: Make, mailbox: Mailbox) -> None:
    """Without the setting, no channel gets the book."""
    home = watched()
    assert home.third() == ACCEPTED
    assert deliver_book(home.keeper.nightbook) == []
    assert mailbox.mails == []


def test_a_home_without_a_book_delivers_nothing(
    shown: Sandbox, mailbox: Mailbox, tmp_path: Path
) -> None:
    """Before the first book, there is nothing to send and nothing to complain about."""
    settings = {"NIGHTBOOK_DELIVER": f"both {mailbox.address}", "NIGHTBOOK_OWNERS": f"A={DEAD}"}
    assert deliver_book(Keeper(tmp_path / "home", shown, settings).nightbook) == []
    assert mailbox.mails == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NIGHTBOOK_DELIVER", "mailto://token-5b1d@x"),
        ("NIGHTBOOK_DELIVER", "all mailto://token-5b1d@x"),
        ("NIGHTBOOK_OWNERS", "mailto://token-5b1d@x"),
    ],
)
def test_a_wrong_address_is_refused_without_its_secret(name: str, text: str) -> None:
    """A channel without its content or owner is refused in words, which do not show the address."""
    with pytest.raises(InvalidSettings, match=name) as caught:
        read({name: text}, api=False)
    assert "token-5b1d" not in str(caught.value)


def test_settings_have_contents_owners_and_addresses() -> None:
    """Names and addresses may contain spaces, commas and equal signs."""
    settings = read(
        {
            "NIGHTBOOK_DELIVER": "both mailto://a,b@x?to=c,d, report json://h/p?x=1",
            "NIGHTBOOK_OWNERS": "Ann Lee = mailto://a@x?to=b,c, Bob=json://h/?k=v",
        },
        api=False,
    )
    assert settings.deliver == (
        ("both", "mailto://a,b@x?to=c,d"),
        ("report", "json://h/p?x=1"),
    )
    assert settings.owners == (("Ann Lee", "mailto://a@x?to=b,c"), ("Bob", "json://h/?k=v"))
    assert "mailto" not in repr(settings)


def test_a_channel_that_fails_or_is_unknown_is_not_an_error() -> None:
    """A channel that cannot be reached, or has no plugin, returns False."""
    assert not send_by_apprise(DEAD, "title", "body")
    assert not send_by_apprise("nonsense://x", "title", "body")
