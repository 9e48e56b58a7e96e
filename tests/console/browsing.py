"""A real browser for tests of the page: Chromium of the system, by Playwright; skipped where there is none.

A `Visitor` is a fresh browser profile at a console. Whatever goes wrong in the page, and every request that leaves the
console's host, is collected and must be nothing at the end.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.patience import HANG_S

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BLANK = "about:blank"
NEVER_MS = HANG_S * 1000


def chromium() -> Iterator[Any]:
    """A browser, for a fixture."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


class Visitor:
    """One page, and its errors."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()  # console messages that a test provokes
        self.bytes = 0
        page.set_default_timeout(NEVER_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._interrupted)
        page.on("request", self._asked)
        page.on("websocket", lambda socket: self._check(socket.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _interrupted(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: Any) -> None:
        self._check(request.url)

    def _check(self, url: str) -> None:
        if url != BLANK and urlsplit(url).netloc != urlsplit(self.url).netloc:
            self.problems.append(f"asked {url}")

    def open(self, view: str = "", **given: str) -> None:
        """Go to a view by its address."""
        search = "&".join(f"{name}={quote(value)}" for name, value in given.items())
        self.page.goto(BLANK)
        self.page.goto(f"{self.url}#/{view}{'?' if search else ''}{search}")

    def see(self, selector: str, text: str | None = None) -> Any:
        """Wait until something is shown."""
        found = self.page.locator(selector)
        if text is not None:
            found = found.filter(has_text=text)
        found.first.wait_for(state="visible")
        return found

    def until(self, script: str) -> None:
        """Wait until an expression is true in the page, whose policy forbids Playwright's own way."""
        self.wait(lambda: bool(self.page.evaluate(script)))

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the browser continues."""
        while not condition():
            self.page.wait_for_timeout(10)

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]


@contextmanager
def visiting(browser: Any, url: str, **options: Any) -> Iterator[Visitor]:
    """A visitor; at the end nothing may have gone wrong."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options)
    try:
        visitor = Visitor(context.new_page(), url)
        visitor.page.add_init_script("try { localStorage.setItem('octopia-tour', 'done') } catch {}")
        yield visitor
        unexpected = [each for each in visitor.problems if not any(text in each for text in visitor.expected)]
        assert unexpected == [], unexpected
    finally:
        context.close()
