"""A broker with 100,000 subscriptions whose table is sorted, searched and paged, and how long its page takes to load.

While a table is asked for, another client sends one request after the other; the longest it waits for an answer is how
much a reader disturbs those who use the broker. The page is that of `octopia console`, in Chromium, where there is one.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.screenshots import FLAGS, find_chromium
from octopia.net import Client, connect
from octopia.topology import BrokerId
from octopia.watch import Reader, find

SUBSCRIPTIONS = 100_000
AT_ONCE = 1_000
PORT, HTTP_PORT, CONSOLE_PORT = 27_600, 29_600, 28_599
URL = f"octopia://127.0.0.1:{PORT}"
QUESTIONS: dict[str, dict[str, Any]] = {
    "first_page": {},
    "sorted": {"sort": "filter"},
    "searched_and_sorted": {"sort": "-filter", "q": "9"},
    "searched": {"q": "s777"},
    "last_page": {"sort": "filter", "offset": SUBSCRIPTIONS - 50},
}
LOADED_MS = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def run() -> dict[str, Any]:
    """The figures, which are printed as well."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "overlay.toml"
        brokers = f'[brokers]\nport = {PORT}\nhttp_port = {HTTP_PORT}\nstate = ""\n'
        file.write_text(f'[overlay]\ntree = "path:1"\nclusters = 1\n{brokers}')
        broker = _started("serve", str(file))
        try:
            figures = asyncio.run(_measure(file))
        finally:
            broker.kill()
            broker.communicate()
    for name, value in figures.items():
        print(f"{name:36} {value}")
    return figures


def _started(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "octopia", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  ourselves
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def _measure(file: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    reader = Reader(await find(file))
    async with connect(URL) as subscriber, connect(URL) as user:
        await _subscribe(subscriber)
        for name, question in QUESTIONS.items():
            waits: list[float] = []
            using = asyncio.create_task(_use(user, waits))
            begin = time.perf_counter()
            page = await reader.table(BrokerId("a", 0), "subscriptions", limit=50, **question)
            figures[f"{name}_ms"] = round(1e3 * (time.perf_counter() - begin), 1)
            using.cancel()
            assert (page["total"], page["complete"]) == (SUBSCRIPTIONS, True), page
            figures[f"{name}_longest_wait_ms"] = round(1e3 * max(waits, default=0.0), 1)
        figures["page_load_ms"] = await asyncio.to_thread(_page_load_ms, file)
    return figures


async def _subscribe(client: Client) -> None:
    for first in range(0, SUBSCRIPTIONS, AT_ONCE):
        numbers = range(first, first + AT_ONCE)
        wanted = [client.subscribe(f"symbol = 'S{n}' and price > {n % 97}") for n in numbers]
        await asyncio.gather(*(client.start_subscription(one) for one in wanted))


async def _use(client: Client, waits: list[float]) -> None:
    while True:
        begin = time.perf_counter()
        await client.unadvertise("none")
        waits.append(time.perf_counter() - begin)


def _page_load_ms(file: Path) -> list[float] | None:
    """Three loads of the map, each by a browser that has nothing of it yet."""
    chromium = find_chromium()
    if not chromium:
        return None
    from playwright.sync_api import sync_playwright

    console = _started("console", str(file), "--listen", f"127.0.0.1:{CONSOLE_PORT}")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            loads = []
            for _ in range(3):
                page = browser.new_context().new_page()
                page.goto(f"http://127.0.0.1:{CONSOLE_PORT}/")
                page.locator(".totals .number").first.wait_for()
                loads.append(round(float(page.evaluate(LOADED_MS)), 1))
            browser.close()
            return loads
    finally:
        console.terminate()
        console.communicate()
