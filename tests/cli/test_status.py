"""`octopia status` believes a port only where the right broker of the right overlay answers."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from octopia.cli import main
from octopia.net import load_config
from tests.net.processes import own_host

HTTP_PORT = 9480


@contextmanager
def answering(port: int, answer: Any) -> Iterator[None]:
    """Something at this port that answers everyone the same."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name there
            pass

    server = ThreadingHTTPServer((own_host(), port), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def state(broker: str, overlay: str) -> dict[str, Any]:
    return {"broker": broker, "overlay": overlay, "status": "ok", "clients": 1, "links": []}


def test_what_answers_instead_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "overlay.toml"
    brokers = f'[brokers]\nhost = "{own_host()}"\nport = 7480\nhttp_port = {HTTP_PORT}\n'
    file.write_text(f'[overlay]\ntree = "path:5"\nclusters = 1\n{brokers}', encoding="utf-8")
    digest = load_config(file).digest
    monkeypatch.setattr(sys, "argv", ["octopia", "status", str(file), "--json"])
    with (
        answering(HTTP_PORT, state("(a,0)", digest)),
        answering(HTTP_PORT + 1, state("(c,0)", digest)),
        answering(HTTP_PORT + 2, state("(c,0)", "of another overlay")),
        answering(HTTP_PORT + 3, ["something", "else"]),
    ):
        with pytest.raises(SystemExit) as done:
            main()
        answers = json.loads(capsys.readouterr().out)
        monkeypatch.setattr(sys, "argv", ["octopia", "status", str(file)])
        with pytest.raises(SystemExit):
            main()
    at = f"answers at {own_host()}"
    assert done.value.code == 1
    assert [(answer["broker"], answer["status"]) for answer in answers] == [
        ("(a,0)", "ok"),
        ("(b,0)", "wrong"),
        ("(c,0)", "wrong"),
        ("(d,0)", "wrong"),
        ("(e,0)", "down"),
    ]
    assert [answer.get("reason") for answer in answers[:4]] == [
        None,
        f"(c,0) {at}:{HTTP_PORT + 1}",
        f"(c,0) of another overlay {at}:{HTTP_PORT + 2}",
        f"what {at}:{HTTP_PORT + 3} is not a broker",
    ]
    assert f"(c,0): (c,0) of another overlay {at}:{HTTP_PORT + 2}" in capsys.readouterr().out.replace("\n", "")
