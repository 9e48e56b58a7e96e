"""Watching a running overlay over HTTP, for the terminal and the web console. Read-only."""

from octopia.watch.asking import LiveAnswer, why, why_traced
from octopia.watch.fetch import ANSWER_S, get_json
from octopia.watch.history import SPAN_S, History
from octopia.watch.overlays import Place, Watched, find
from octopia.watch.path import Gets, Hop, Path, path_of
from octopia.watch.probing import advertise_exactly, follow, probe
from octopia.watch.reader import Reader, WrongBrokerError
from octopia.watch.view import BrokerView, LinkView, OverlayView, Totals, broker_view, overlay_view, series_of
from octopia.watch.watcher import Watcher

__all__ = [
    "ANSWER_S",
    "SPAN_S",
    "BrokerView",
    "Gets",
    "History",
    "Hop",
    "LinkView",
    "LiveAnswer",
    "OverlayView",
    "Path",
    "Place",
    "Reader",
    "Totals",
    "Watched",
    "Watcher",
    "WrongBrokerError",
    "advertise_exactly",
    "broker_view",
    "find",
    "follow",
    "get_json",
    "overlay_view",
    "path_of",
    "probe",
    "series_of",
    "why",
    "why_traced",
]
