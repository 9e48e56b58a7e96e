"""Structured logs: one JSON object per line on standard error, through `logging`.

An entry is a short fixed text and named fields, so that a machine can filter by either. Nothing secret is ever a field.
A library user who configures `logging` gets ordinary records with the fields in `extra`. Entries from `info` up also
go to the event log (`events.py`), whatever the level of the logger; `event` is for those that go there alone.
"""

import json
import logging
import time
from typing import Any

from octopia.net.broker.operations.events import Events

LOGGER = logging.getLogger("octopia.net")


class Log:
    """Entries of one broker."""

    __slots__ = ("_broker", "events")

    def __init__(self, broker: str, events: Events | None = None) -> None:
        self._broker = broker
        self.events = Events() if events is None else events

    def debug(self, text: str, **named: Any) -> None:
        self._write(logging.DEBUG, text, named)

    def event(self, text: str, **named: Any) -> None:
        """Write to the event log; the log has it at level debug."""
        self.events.note("info", text, named)
        self._write(logging.DEBUG, text, named)

    def info(self, text: str, **named: Any) -> None:
        self.events.note("info", text, named)
        self._write(logging.INFO, text, named)

    def warning(self, text: str, **named: Any) -> None:
        self.events.note("warning", text, named)
        self._write(logging.WARNING, text, named)

    def fault(self, text: str, error: Exception, **named: Any) -> None:
        """Log a fault of our own, with its traceback."""
        self.events.note("error", text, named)
        self._write(logging.ERROR, text, named, error)

    def _write(self, level: int, text: str, named: dict[str, Any], error: Exception | None = None) -> None:
        if LOGGER.isEnabledFor(level):
            LOGGER.log(level, text, exc_info=error, extra={"octopia": {"broker": self._broker, **named}})


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "text": record.getMessage(),
            **getattr(record, "octopia", {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to_stderr(level: str = "info") -> None:
    """The logging setup of `octopia serve`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    LOGGER.handlers = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(level.upper())
