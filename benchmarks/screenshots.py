"""`python -m benchmarks.screenshots [FOLDER]`: the pictures of docs/console.md, taken of the demo in a real browser.

It starts `octopia console --demo`, does what a visitor would do, and writes PNG files. It needs Chromium.
"""

import json
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "images"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
DESK = {"width": 1280, "height": 760}
PHONE = {"width": 390, "height": 760}
QUOTE = json.dumps({"symbol": "IBM", "price": 140.5, "change": 1.9, "volume": 60000, "exchange": "NYSE"})
SLOW = ["(b,2)", "(b,0)"]


def main() -> int:
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    chromium = find_chromium()
    if not chromium:
        print("no Chromium is installed", file=sys.stderr)
        return 1
    demo = subprocess.Popen([sys.executable, "-m", "octopia", "console", "--demo"], stdout=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        take(demo.stdout.readline().strip(), chromium, folder)
    finally:
        demo.terminate()
        demo.wait()
    return 0


def find_chromium() -> str:
    """The path of a Chromium that is installed, or nothing."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
    )


def take(url: str, chromium: str, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))

        def picture(name: str, address: str, prepare: Callable[[Any], None], **options: Any) -> None:
            context = browser.new_context(**{"viewport": DESK} | options)
            page = context.new_page()
            page.add_init_script("localStorage.setItem('octopia-tour', 'done')")
            page.goto(f"{url}#/{address}")
            prepare(page)
            page.screenshot(path=folder / f"{name}.png")
            print(folder / f"{name}.png", flush=True)
            context.close()

        # Half a minute of history first, so that charts have something to show.
        picture("console-broker", "broker/(b,2)", lambda page: settle(page, 30_000))
        play(url, {"do": "slow", "link": SLOW, "ms": 30})
        picture("console-map", "map", lambda page: overloaded(page))
        picture("console-play", "play", lambda page: overloaded(page), color_scheme="dark")
        play(url, {"do": "mend_all"})
        picture(
            "console-listen",
            "listen?filter=symbol+in+('IBM','AAPL')+and+change+%3E+0&on=1",
            lambda page: settle(page, 5000),
        )
        picture("console-probe", f"publish?publisher=nyse&n={urllib.parse.quote(QUOTE)}", probed)
        picture("console-phone", "map", lambda page: settle(page, 3000), viewport=PHONE, color_scheme="dark")
        browser.close()


def settle(page: Any, ms: int) -> None:
    page.locator(".totals .number").first.wait_for()
    page.wait_for_timeout(ms)


def overloaded(page: Any) -> None:
    """Wait for the moment at which the slow link is detoured around."""
    settle(page, 4000)
    page.locator(".mark.is-avoided").first.wait_for()


def probed(page: Any) -> None:
    settle(page, 1000)
    page.locator("button.primary").first.click()
    page.locator(".verdict").first.wait_for()
    page.wait_for_timeout(2500)


def play(url: str, order: dict[str, Any]) -> None:
    request = urllib.request.Request(  # noqa: S310  always http
        f"{url}api/play", json.dumps(order).encode(), {"content-type": "application/json"}
    )
    urllib.request.urlopen(request).close()  # noqa: S310


if __name__ == "__main__":
    sys.exit(main())
