"""Routing policies by name: what a broker does for each request of a client and each message of a neighbour.

Rules of this file: a policy is data, a table of functions; the mechanism (`broker.py`) is the same for all. A routing
idea is tried without a change here: write its functions, put a `Policy` of them into a module of your own, and
`module:NAME` names it to every host and experiment, in whichever process that runs. Such a name is taken from who runs
the program only (arguments, his configuration), never from a file of data or from a peer: it makes us import a module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar

from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.language import Filter
from octopia.routing import scot, tid
from octopia.routing.actions import Action
from octopia.routing.clients import Limits, Registered
from octopia.routing.congestion import CongestionParameters
from octopia.routing.events import Published
from octopia.routing.index import MakeIndex
from octopia.routing.messages import (
    Advertise,
    AdvertisementsComplete,
    CibClear,
    CibSet,
    Key,
    Message,
    Notify,
    NotifyRoutes,
    NotifyTree,
    Subscribe,
    SubscriptionsComplete,
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
class Recovery(Generic[State]):
    """How a routing brings its tables back in line: at a start with all links down, and per event of a link."""

    start_apart: Callable[[State, Scot], None]
    link_came_up: Callable[[State, BrokerId, list[Action]], None]
    link_given_up: Callable[[State, BrokerId, list[Action]], None]


@dataclass(frozen=True, slots=True)
class Policy(Generic[State]):
    """One routing: its name, its kind of state, and its functions.

    `recovery` is None where the routing cannot bring its tables back in line after a loss.
    """

    name: str
    title: str
    uses_civ: bool
    uses_lst: bool
    make_state: Callable[[BrokerId, Scot, CongestionParameters, Limits, MakeIndex, int], State]
    advertise: Callable[[State, Key, Filter, list[Action]], None]
    unadvertise: Callable[[State, Key, list[Action]], None]
    subscribe: Callable[[State, Key, Filter, str, str, list[Action]], None]
    unsubscribe: Callable[[State, Key, list[Action]], None]
    publish: Callable[[State, Published, list[Registered], list[Action]], None]
    receive: Mapping[type[Message], Receive[State]]
    recovery: Recovery[State] | None


_SCOT_CONTROL: dict[type[Message], Receive[ScotState]] = {
    Advertise: scot.advertise.receive_advertise,
    Unadvertise: scot.advertise.receive_unadvertise,
    Subscribe: scot.subscribe.receive_subscribe,
    Unsubscribe: scot.subscribe.receive_unsubscribe,
    CibSet: scot.advertise.receive_cib_set,
    CibClear: scot.advertise.receive_cib_clear,
    SubscriptionsComplete: scot.resync.receive_subscriptions_complete,
    AdvertisementsComplete: scot.resync.receive_advertisements_complete,
}

_SCOT_RECOVERY = Recovery(scot.resync.start_apart, scot.resync.link_came_up, scot.resync.link_given_up)

_TID_CONTROL: dict[type[Message], Receive[TidState]] = {
    Advertise: tid.advertise.receive_advertise,
    Unadvertise: tid.advertise.receive_unadvertise,
    Subscribe: tid.subscribe.receive_subscribe,
    Unsubscribe: tid.subscribe.receive_unsubscribe,
}


def _policy(name: str, title: str, family: Any, message: type[Message], notify: Any) -> Policy[Any]:
    """A policy of a family: `scot` or `tid`, which have the same file names, with one of its ways to notify."""
    uses_civ = family is scot
    control: Mapping[type[Message], Receive[Any]] = _SCOT_CONTROL if uses_civ else _TID_CONTROL
    return Policy(
        name=name,
        title=title,
        uses_civ=uses_civ,
        uses_lst=notify is family.notify_dynamic,
        make_state=ScotState if uses_civ else TidState,
        advertise=family.advertise.advertise,
        unadvertise=family.advertise.unadvertise,
        subscribe=family.subscribe.subscribe,
        unsubscribe=family.subscribe.unsubscribe,
        publish=notify.publish,
        receive={**control, message: notify.receive_notify},
        recovery=_SCOT_RECOVERY if uses_civ else None,
    )


POLICIES: Mapping[str, Policy[Any]] = {
    policy.name: policy
    for policy in (
        _policy("snr", "static notification routing", scot, Notify, scot.notify_static),
        _policy("idr", "inter-cluster dynamic routing", scot, Notify, scot.notify_dynamic),
        _policy("tid", "TID routing, static", tid, NotifyTree, tid.notify_static),
        _policy("tid-dynamic", "TID routing, dynamic", tid, NotifyRoutes, tid.notify_dynamic),
    )
}


def policy_named(name: str) -> Policy[Any]:
    """The routing of this name: one of `POLICIES`, or `module:NAME` for a `Policy` in a module of your own."""
    policy = POLICIES.get(name)
    if policy is not None:
        return policy
    if ":" in name:
        return _policy_in_module(name)
    raise _unknown(name, own=True)


def check_routings(names: Sequence[str], *, own: bool) -> None:
    """Refuse routings to be compared if one is unknown or there twice; `own`: they may be in modules of your own."""
    for number, name in enumerate(names):
        if not own or ":" not in name:
            if name not in POLICIES:
                raise _unknown(name, own=own)
        else:
            _policy_in_module(name)
        if name in names[:number]:
            raise InputError(f"{name} is named twice")
    if not names:
        raise InputError(f"none is named; the routings are {_there_are(own=own)}")


def _unknown(name: str, *, own: bool) -> InputError:
    return InputError(f"unknown routing {name!r}{maybe_meant(name, POLICIES)}; the routings are {_there_are(own=own)}")


def _there_are(*, own: bool) -> str:
    return ", ".join(POLICIES) + (", or MODULE:NAME of your own" if own else "")


@cache
def _policy_in_module(name: str) -> Policy[Any]:
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module_name), attribute, None)
    except Exception as error:
        # whatever a module does when it is run is its own affair: it is told, with the name that led to it
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"routing {name!r}: module {module_name!r} cannot be imported ({reason})") from error
    if not isinstance(found, Policy):
        there = "no such name" if found is None else f"no Policy there, but a value of type {type(found).__name__}"
        raise InputError(f"routing {name!r}: module {module_name!r} has {there}; write it as MODULE:NAME")
    return found
