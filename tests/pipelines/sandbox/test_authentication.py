"""Tests of authentication (5, 9). Numbers refer to the 132 statements that the tests check."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from pipelines.sandbox.authentication import Caller, digest, payload
from pipelines.sandbox.server import application
from pipelines.sandbox.world.world import LivingWorld

PREFIX = "/edge/v1beta"
REFUSED = (401, "AUTHENTICATION_FAILED")
TOO_LATE = (400, "TIMESTAMP_INVALID")
SECRET = b"secret-of-all"
Ask = Callable[..., Any]

KNOWN = [
    (
        f"{PREFIX}/portfolios",
        1700000000000,
        (
            "10cbff08bcb72fe429109d0da0c395e36341dbfe1bd2a3524ee053523eefcb18"
            "d6282854f7da8bb7bf5bcb51f8dfb569"
        ),
    ),
    (
        f"{PREFIX}/venues/a%2Fb/instruments",
        1700000000000,
        (
            "3077ca184b34ef8cd896783bcd9f6e531bf755aa3c54c2eef0fc70b651a7f191"
            "52ad238bd696f78bf700d0b9a098ded9"
        ),
    ),
    (
        f"{PREFIX}/portfolios/00000000-0000-4000-8000-000000000001",
        1700000000001,
        (
            "c328c53d6a8451302a8d1c0a60e2db50a224ee122a74c069fb3ad246270c1cba"
            "2430abc8c025ae0f3e73b0990a1e9672"
        ),
    ),
]


@pytest.mark.parametrize(("path", "at", "signature"), KNOWN)
def test_known_signatures_are_accepted(
    path: str, at: int, signature: str, ask: Ask, signed: Callable[..., str]
) -> None:
    """Both signers compute the three known-answer signatures, and the server accepts them (5.2)."""
    assert digest("test-secret", payload("GET", path.encode(), b"", str(at))) == signature
    assert signed("test-secret", "GET", path, str(at)) == signature
    app = application(LivingWorld(), {"k": Caller("test-secret")}, lambda: at)
    reply = ask(path, prefix="", app=app, key="k", timestamp=at, signature=signature)
    assert reply.status == 200 or reply.refusal == (400, "RESOURCE_NOT_FOUND")


def by_hand(text: str, algorithm: str = "sha384", secret: bytes = SECRET) -> str:
    """Compute the signature of any text."""
    return hmac.new(secret, text.encode(), algorithm).hexdigest()


@pytest.mark.parametrize(
    ("pattern", "query"),
    [
        pytest.param("GET{p} {t}", "", id="113-separator"),
        pytest.param("{p}GET{t}", "", id="113-order"),
        pytest.param("{t}GET{p}", "", id="113-timestamp-first"),
        pytest.param("get{p}{t}", "", id="114-method-in-lower-case"),
        pytest.param("GET/venues{t}", "", id="115-path-without-prefix"),
        pytest.param("GET{p}?include=instruments{t}", "include=instruments", id="116-query"),
        pytest.param("GET{p}null{t}", "", id="117-body-of-nothing"),
        pytest.param("GET{p}{{}}{t}", "", id="117-body-of-braces"),
        pytest.param("GET{p}0{t}", "", id="118-timestamp-not-as-in-the-header"),
        pytest.param("GET{p}", "", id="118-no-timestamp"),
        pytest.param("GET/edge/v1beta/portfolios{t}", "", id="127-another-path"),
    ],
)
def test_a_signature_of_a_wrong_payload_is_refused(
    pattern: str, query: str, ask: Ask, now: int
) -> None:
    """A signature of anything but method, path, body and timestamp is refused (5.2)."""
    right = by_hand(f"GET{PREFIX}/venues{now}")
    wrong = by_hand(pattern.format(p=f"{PREFIX}/venues", t=now))
    assert ask("/venues", query, signature=right).status == 200
    assert ask("/venues", query, signature=wrong).refusal == REFUSED


def test_118_the_timestamp_is_signed_as_it_is_sent(ask: Ask, now: int) -> None:
    """A leading zero in the timestamp header is accepted only if it is also signed (5.2, 5)."""
    wrong = by_hand(f"GET{PREFIX}/venues{now}")
    assert ask("/venues", timestamp=f"0{now}", signature=wrong).refusal == REFUSED
    assert ask("/venues", timestamp=f"0{now}").status == 200


def test_116_changing_the_query_keeps_a_signature_valid(ask: Ask, now: int) -> None:
    """The query is not signed, so it can change under the same signature (5.2, 3)."""
    signature = by_hand(f"GET{PREFIX}/venues{now}")
    for query in ("", "include=instruments", "id=kestrel"):
        assert ask("/venues", query, signature=signature).status == 200


def test_119_only_hmac_sha_384_is_accepted(ask: Ask, now: int) -> None:
    """Other HMAC digests, and a plain SHA-384 hash of secret and text, are refused (5.2, 6)."""
    text = f"GET{PREFIX}/venues{now}"
    bare = hashlib.sha384(SECRET + text.encode()).hexdigest()
    for signature in (by_hand(text, "sha256"), by_hand(text, "sha512"), bare):
        assert ask("/venues", signature=signature).refusal == REFUSED
    assert ask("/venues", signature=by_hand(text)).status == 200


def test_120_a_signature_with_a_different_secret_is_refused(ask: Ask, now: int) -> None:
    """A signature with a different caller's secret is refused for this key (5.2, 6)."""
    signature = by_hand(f"GET{PREFIX}/venues{now}", secret=b"secret-of-some")
    assert ask("/venues", signature=signature).refusal == REFUSED
    assert ask("/venues", key="some", signature=signature).status == 200


def test_121_a_signature_has_96_hexadecimal_characters(ask: Ask, now: int) -> None:
    """A signature is 96 hexadecimal characters. Other lengths and base64 are refused (5.2, 7)."""
    signature = by_hand(f"GET{PREFIX}/venues{now}")
    assert len(signature) == 96
    for wrong in (signature[:-1], signature + "0", "0x" + signature, "é" * 96, "A" * 64):
        assert ask("/venues", signature=wrong).refusal == REFUSED


@pytest.mark.parametrize(
    ("age", "status"),
    [(0, 200), (29_900, 200), (30_000, 200), (30_001, 400), (86_400_000, 400)],
)
def test_122_123_a_timestamp_older_than_30_seconds_is_refused(
    age: int, status: int, ask: Ask, now: int
) -> None:
    """A timestamp may be at most 30 seconds old, exact to the millisecond (5.3)."""
    reply = ask("/venues", timestamp=now - age)
    assert reply.status == status
    assert status == 200 or reply.refusal == TOO_LATE


def test_a_choice_sets_the_window_for_future_timestamps(ask: Ask, now: int) -> None:
    """A timestamp more than 30 s in the future is refused, unless a choice allows it.

    A second choice excludes timestamps that are exactly 30 s old.
    """
    assert ask("/venues", timestamp=now + 30_000).status == 200
    assert ask("/venues", timestamp=now + 30_001).refusal == TOO_LATE
    assert ask("/venues", timestamp=now + 10**9, future_window_ms=None).status == 200
    assert ask("/venues", timestamp=now - 30_000, window_inclusive=False).refusal == TOO_LATE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1.7e12",
        "1700000000.5",
        "1_795_000_000_000",
        " 1",
        "\u0661\u0667",
        "9" * 19,
        "-1",
    ],
)
def test_124_a_timestamp_is_a_positive_integer(text: str, ask: Ask) -> None:
    """A timestamp that is not a positive int64 is TIMESTAMP_INVALID, even if it is signed (5.3)."""
    signature = by_hand(f"GET{PREFIX}/venues{text}")
    wire = text.encode().decode("latin-1")
    for window in (30_000, None) if text != "-1" else (30_000,):
        reply = ask("/venues", timestamp=wire, signature=signature, future_window_ms=window)
        assert reply.refusal == TOO_LATE


def test_125_126_a_wrong_signature_looks_like_an_unknown_key(ask: Ask) -> None:
    """A wrong signature and an unknown key get identical responses (5.3)."""
    wrong, unknown = ask("/venues", signature="0" * 96), ask("/venues", key="stranger")
    assert wrong.refusal == unknown.refusal == REFUSED
    assert wrong.body == unknown.body


@pytest.mark.parametrize(
    ("header", "refusal"),
    [
        pytest.param("SVC-API-KEY", REFUSED, id="076"),
        pytest.param("SVC-API-TIMESTAMP", TOO_LATE, id="077"),
        pytest.param("SVC-API-SIGNATURE", REFUSED, id="078"),
    ],
)
def test_076_077_078_all_three_headers_are_required(
    header: str, refusal: tuple[int, str], ask: Ask
) -> None:
    """A request without one of the three headers is refused, and choices set the error (4, 5.3)."""
    assert ask("/venues", drop=header).refusal == refusal
    answer = (400, "PARAMETER_INVALID")
    assert ask("/venues", drop=header, missing_key=answer, missing_timestamp=answer).refusal == (
        answer
    )


def test_127_a_signature_is_valid_for_only_one_path(ask: Ask, now: int) -> None:
    """A signature is valid only for the ID in its path (5.2)."""
    signature = by_hand(f"GET{PREFIX}/venues/kestrel{now}")
    assert ask("/venues/kestrel", signature=signature).status == 200
    assert ask("/venues/meridian", signature=signature).refusal == REFUSED


def test_128_error_codes_and_messages_are_strings(ask: Ask) -> None:
    """Code and message are strings in every kind of refusal (7)."""
    replies = [ask("/x"), ask("/venues", key="stranger"), ask("/venues", "x=1"), ask("/venues/x")]
    for reply in replies:
        assert all(type(text) is str for one in reply.json["errors"] for text in one.values())
    assert len(replies) == len({reply.refusal for reply in replies})


def test_132_a_different_version_is_not_served(ask: Ask) -> None:
    """Paths with a different version in their prefix are not served (9)."""
    for prefix in ("/edge/v1", "/edge/v2beta", "/edge/v1beta2", "/EDGE/v1beta"):
        for key in ("all", "stranger"):
            reply = ask("/venues", prefix=prefix, key=key)
            assert reply.refusal == (404, "RESOURCE_NOT_FOUND")


def test_a_request_body_is_signed(ask: Ask, now: int) -> None:
    """A request body is part of the signed payload, although no operation needs one (5.2, 1)."""
    empty = by_hand(f"GET{PREFIX}/venues{now}")
    assert ask("/venues", body=b"{}").status == 200
    assert ask("/venues", body=b"{}", signature=empty).refusal == REFUSED


def test_an_encoded_path_is_signed_as_sent_by_default(ask: Ask, now: int) -> None:
    """The path is signed as it is sent, unless a choice accepts the decoded path (5.2)."""
    sent = by_hand(f"GET{PREFIX}/venues/north%20sea%2Fotc%20desk{now}")
    decoded = by_hand(f"GET{PREFIX}/venues/north sea/otc desk{now}")
    path = "/venues/north%20sea%2Fotc%20desk"
    assert ask(path, signature=sent).json["data"]["id"] == "north sea/otc desk"
    assert ask(path, signature=decoded).refusal == REFUSED
    assert ask(path, signature=decoded, signed_path="decoded").status == 200
    assert ask(path, signature=sent, signed_path="decoded").refusal == REFUSED
    assert ask(path, signature=sent, signed_path="either").status == 200
