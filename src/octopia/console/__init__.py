"""The web console: a page that shows a running overlay, and the WebSocket for clients in browsers.

    serving.py    the process: a socket, uvicorn            settings.py   address and access rules
    app.py        routes                                    guard.py      Host, Origin, access token, security headers
    service.py    the overlay behind the pages              api.py        the page's HTTP API
    hub.py        one watcher for all pages                 overlay_json.py  plan and state as the page gets them
    browser.py    a browser as a client                     frames.py     its protocol     sampling.py  its rate cap
    meter.py      delays, measured by test clients          advertised.py, tables.py, trouble.py  answers
    demo/         an overlay to try it with                 page/         HTML, CSS and JavaScript, as served

The console is an ordinary client of the overlay and a reader of the brokers' HTTP ports; brokers do not know about it.
Starlette and uvicorn come with the extra `console`.
"""

from octopia.console.demo import DemoPlan, DemoProcess
from octopia.console.service import Service
from octopia.console.serving import Console, bind, run_console
from octopia.console.settings import HOST_DEFAULT, PORT_DEFAULT, ConsoleSettings

__all__ = [
    "HOST_DEFAULT",
    "PORT_DEFAULT",
    "Console",
    "ConsoleSettings",
    "DemoPlan",
    "DemoProcess",
    "Service",
    "bind",
    "run_console",
]
