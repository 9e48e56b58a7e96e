"""Routing policies by name: what a broker does for each request of a client and each message of a neighbour.

Rules of this file: a policy is data, a table of functions; the mechanism (`broker.py`) is the same for all. To try a
routing idea, write its functions, name them here, and every host, test and experiment can run it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from octopia.errors import InputError
from octopia.language import Filter
from octopia.routing import scot, tid
from octopia.routing.actions import Action
from octopia.routing.clients import Limits, Registered
from octopia.routing.congestion import CongestionParameters
from octopia.routing.events import Published
from octopia.routing.messages import (
    Advertise,
    CibClear,
    CibSet,
    Key,
    Message,
    Notify,
    NotifyRoutes,
    NotifyTree,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from octopia.routing.scot.state import ScotState
from octopia.routing.state import BrokerState
from octopia.routing.tid.state import TidState
from octopia.topology import BrokerId, Scot

State = TypeVar("State", bound=BrokerState)
Receive = Callable[[State, BrokerId, Any, list[Action]], None]


@dataclass(frozen=True, slots=True)
class Policy(Generic[State]):
    """One routing: its name, its kind of state, and its functions."""

    name: str
    title: str
    uses_civ: bool
    make_state: Callable[[BrokerId, Scot, CongestionParameters, Limits, int], State]
    advertise: Callable[[State, Key, Filter, list[Action]], None]
    unadvertise: Callable[[State, Key, list[Action]], None]
    subscribe: Callable[[State, Key, Filter, str, str, list[Action]], None]
    unsubscribe: Callable[[State, Key, list[Action]], None]
    publish: Callable[[State, Published, list[Registered], list[Action]], None]
    receive: Mapping[type[Message], Receive[State]]


_SCOT_CONTROL: dict[type[Message], Receive[ScotState]] = {
    Advertise: scot.advertise.receive_advertise,
    Unadvertise: scot.advertise.receive_unadvertise,
    Subscribe: scot.subscribe.receive_subscribe,
    Unsubscribe: scot.subscribe.receive_unsubscribe,
    CibSet: scot.advertise.receive_cib_set,
    CibClear: scot.advertise.receive_cib_clear,
}

_TID_CONTROL: dict[type[Message], Receive[TidState]] = {
    Advertise: tid.advertise.receive_advertise,
    Unadvertise: tid.advertise.receive_unadvertise,
    Subscribe: tid.subscribe.receive_subscribe,
    Unsubscribe: tid.subscribe.receive_unsubscribe,
}


def _scot(name: str, title: str, notify: Any) -> Policy[ScotState]:
    return Policy(
        name=name,
        title=title,
        uses_civ=True,
        make_state=ScotState,
        advertise=scot.advertise.advertise,
        unadvertise=scot.advertise.unadvertise,
        subscribe=scot.subscribe.subscribe,
        unsubscribe=scot.subscribe.unsubscribe,
        publish=notify.publish,
        receive={**_SCOT_CONTROL, Notify: notify.receive_notify},
    )


def _tid(name: str, title: str, message: type[Message], notify: Any) -> Policy[TidState]:
    return Policy(
        name=name,
        title=title,
        uses_civ=False,
        make_state=TidState,
        advertise=tid.advertise.advertise,
        unadvertise=tid.advertise.unadvertise,
        subscribe=tid.subscribe.subscribe,
        unsubscribe=tid.subscribe.unsubscribe,
        publish=notify.publish,
        receive={**_TID_CONTROL, message: notify.receive_notify},
    )


POLICIES: Mapping[str, Policy[Any]] = {
    policy.name: policy
    for policy in (
        _scot("snr", "static notification routing", scot.notify_static),
        _scot("idr", "inter-cluster dynamic routing", scot.notify_dynamic),
        _tid("tid", "TID routing, static", NotifyTree, tid.notify_static),
        _tid("tid-dynamic", "TID routing, dynamic", NotifyRoutes, tid.notify_dynamic),
    )
}


def policy_named(name: str) -> Policy[Any]:
    try:
        return POLICIES[name]
    except KeyError:
        raise InputError(f"unknown routing {name!r}; the routings are {', '.join(POLICIES)}") from None
