"""SCOT routing: advertisements in a region, subscriptions in a cluster, a CIV to join them (`snr`, `idr`)."""

from octopia.routing.scot import advertise, interest, notify_dynamic, notify_static, resync, spread, subscribe

__all__ = ["advertise", "interest", "notify_dynamic", "notify_static", "resync", "spread", "subscribe"]
