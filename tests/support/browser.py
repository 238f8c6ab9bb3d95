"""A headless Chromium for tests, which opens pages in light or dark mode and measures them.

Commands use the DevTools protocol over two pipes, so tests need only the browser. The measures come
from the page's layout and not from its source: for example, texts that are cut or that overlap.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest

# `_MEASURE` finds the boxes of the lines of each text on the page. Hidden texts have no boxes.
_OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
_MEASURE = """
(() => {
  const light = (rgb) => {
    const [red, green, blue] = rgb.match(/[0-9.]+/g).slice(0, 3).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  // Every piece of text whose letters are less than 4.5 times lighter or darker than the page.
  const faint = () => [...new Set(boxes.map(({node}) => node.parentElement))].filter((one) => {
    const ink = one.closest('svg') ? getComputedStyle(one).fill : getComputedStyle(one).color;
    const [low, high] = [light(ink), light(behind(one))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) < 4.5;
  }).map((one) => one.textContent.slice(0, 60));
  const wide = document.documentElement.scrollWidth - innerWidth;
  const found = {wide, out: [], cut: [], over: []};
  const boxes = [];
  const hidden = (one) => {
    if (!one.checkVisibility()) return true;
    for (; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.clipPath.startsWith('inset(50%') || style.visibility === 'hidden') return true;
    }
    return false;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim();
    if (!text || hidden(node.parentElement)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const svg = node.parentElement.closest('svg');
    const frame = svg ? svg.getBoundingClientRect() : {left: 0, right: innerWidth};
    for (const box of range.getClientRects()) {
      if (box.width < 1 || box.height < 1) continue;
      const words = text.slice(0, 60);
      if (box.left < frame.left - 1.5 || box.right > frame.right + 1.5) found.out.push(words);
      boxes.push({words, node, left: box.left, right: box.right, top: box.top, bottom: box.bottom});
    }
  }
  for (const one of document.body.querySelectorAll('*')) {
    const style = getComputedStyle(one);
    const room = one.scrollWidth - one.clientWidth;
    if (style.overflowX === 'hidden' && room > 1 && !hidden(one) && !one.closest('svg'))
      found.cut.push(one.textContent.slice(0, 60));
  }
  boxes.sort((one, other) => one.top - other.top);
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++) {
      const [one, other] = [boxes[i], boxes[j]];
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      const small = Math.min(one.bottom - one.top, other.bottom - other.top);
      if (one.node !== other.node && wide > 2 && high > small * 0.45)
        found.over.push(`${one.words} / ${other.words}`);
    }
  }
  found.texts = boxes.length;
  found.height = document.documentElement.scrollHeight;
  const rest = document.querySelector('.rest');
  found.first = rest ? rest.getBoundingClientRect().top + scrollY : 0;
  found.faint = faint();
  return found;
})()
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The settings for a page: its size, colour scheme and medium."""

    width: int
    is_dark: bool = False
    medium: str = "screen"
    height: int = 900


@dataclass(slots=True)
class Seen:
    """The observations of a page: its measures, requests, messages and title.

    `opened` contains the measures with all details open.
    """

    measures: dict[str, Any]
    opened: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    title: str = ""


class Browser:
    """A browser and its two pipes."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands, self._answers = commands, answers
        self._last, self._rest = 0, b""
        self._events: list[dict[str, Any]] = []

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._answers.read1(1 << 16)  # type: ignore[attr-defined] # a buffered reader
            assert part, "the browser is gone"
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        """Send a command and return its result. Store the events that arrive before it."""
        self._last += 1
        words: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        self._commands.write(
            json.dumps(words | ({"sessionId": session} if session else {})).encode()
        )
        self._commands.write(b"\0")
        self._commands.flush()
        while True:
            message = self._message()
            if message.get("id") == self._last:
                assert "error" not in message, message
                answer: dict[str, Any] = message["result"]
                return answer
            self._events.append(message)

    def _until(self, event: str) -> None:
        while not any(one.get("method") == event for one in self._events):
            self._events.append(self._message())

    def open(self, page: Path | str, look: Look) -> str:
        """Open a page with these settings, and return its session."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._events.clear()
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable", session)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            session,
            width=look.width,
            height=look.height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if look.is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, media=look.medium, features=[scheme])
        url = page.resolve().as_uri() if isinstance(page, Path) else page
        self.call("Page.navigate", session, url=url)
        self._until("Page.loadEventFired")
        return str(session)

    def press(self, session: str, key: str, code: int) -> None:
        """Press one key."""
        text = {"text": "\r"} if key == "Enter" else {}
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", session, type="keyDown", **pressed, **text)
        self.call("Input.dispatchKeyEvent", session, type="keyUp", **pressed)

    def look(self, page: Path | str, look: Look, picture: Path | None = None) -> Seen:
        """Open and measure a page. If a path is given, save a picture of the whole page there."""
        session = self.open(page, look)
        seen = Seen(self.evaluate(session, _MEASURE))
        if picture is not None:
            shot = self.call("Page.captureScreenshot", session, captureBeyondViewport=True)
            picture.write_bytes(base64.b64decode(shot["data"]))
        self.evaluate(session, _OPEN_ALL)
        seen.opened = self.evaluate(session, _MEASURE)
        seen.title = self.evaluate(session, "document.title")
        for one in self._events:
            params = one.get("params", {})
            if one.get("method") == "Network.requestWillBeSent":
                seen.asked.append(params["request"]["url"])
            if one.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled"):
                seen.said.append(json.dumps(params)[:500])
            if one.get("method") == "Page.javascriptDialogOpening":
                seen.said.append("a dialog was opened")
        self.call("Page.close", session)
        return seen

    def evaluate(self, session: str, script: str) -> Any:
        """Run a script in the page, and return its value."""
        done = self.call("Runtime.evaluate", session, expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")


LOOKS = (Look(400), Look(400, is_dark=True), Look(1280), Look(1280, is_dark=True))
PRINTED = Look(700, medium="print")


def require_sound(seen: Seen, page: Path) -> None:
    """Assert that all texts are readable, and that the page loads nothing else and logs nothing."""
    for measures in (seen.measures, seen.opened):
        assert measures["texts"] > 40
        assert measures["wide"] <= 0, "the page scrolls sideways"
        assert (measures["out"], measures["cut"], measures["over"]) == ([], [], [])
        assert measures["faint"] == [], "letters too faint to read"
    assert seen.asked == [page.resolve().as_uri()]
    assert seen.said == []
    assert seen.title.startswith("Morning report")


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Start a browser, or skip the test if Chromium is not installed."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium here to look at pages with")
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
    command = [program, *options, "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
    with (
        os.fdopen(ours_out, "wb") as commands,
        os.fdopen(ours_in, "rb") as answers,
        subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as process,
    ):
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(commands, answers)
        finally:
            process.kill()
