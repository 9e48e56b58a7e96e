"""The examples do what they say."""

import subprocess
import sys
from pathlib import Path

from octopia.net import Client, Server, client_context, load_config, make_certificates
from octopia.topology import BrokerId
from tests.net.live import asynchronous, take
from tests.net.processes import own_host

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_quotes() -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "quotes.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "AAPL at 120.5, IBM at 130.0\nMSFT at 88.0\n"


@asynchronous
async def test_three_machines_and_their_certificates(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    text = (EXAMPLES / "three-machines.toml").read_text(encoding="utf-8")
    for number in (1, 2, 3):
        text = text.replace(f"10.0.0.{number}", own_host())
    # One region and two clusters: three machines are then too many, and a certificate takes a while to make.
    text = text.replace("path:3", "path:1").replace("clusters = 3", "clusters = 2").replace(', "m3"]', "]")
    text = text.replace(f', m3 = "{own_host()}"', "").replace(
        "port = 7400\nhttp_port = 9400", "port = 7630\nhttp_port = 0"
    )
    file.write_text(text, encoding="utf-8")
    config = load_config(file)
    made = make_certificates(config, ["feed"])
    assert [path.name for path in made] == ["authority.pem", "a-0.pem", "a-1.pem", "feed.pem"]
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("authority.key", "a-0.key")] == [0o640, 0o640]
    assert make_certificates(config, ["feed"]) == []
    async with Server.of(config) as server:
        await server.links_up()
        urls = [f"octopias://{server.addresses[BrokerId('a', cluster)]}" for cluster in (0, 1)]
        trusted = tmp_path / "authority.pem"
        feed = Client(urls[0], tls=client_context(trusted, tmp_path / "feed.pem", tmp_path / "feed.key"))
        reader = Client(urls[1], token="change me please", tls=client_context(trusted))  # noqa: S106
        async with feed, reader, reader.subscribe("class = 'STOCK' and price > 100") as quotes:
            await feed.advertise("class = 'STOCK' and symbol is not null and price > 0")
            await feed.publish({"class": "STOCK", "symbol": "AAPL", "price": 120})
            assert [d.notification["symbol"] for d in await take(quotes, 1)] == ["AAPL"]
