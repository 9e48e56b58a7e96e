"""TID routing, the baseline: advertisements flood, subscriptions follow their trees (`tid`, `tid-dynamic`)."""

from octopia.routing.tid import advertise, notify_dynamic, notify_static, spread, subscribe

__all__ = ["advertise", "notify_dynamic", "notify_static", "spread", "subscribe"]
