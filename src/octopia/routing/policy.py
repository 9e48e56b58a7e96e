"""Routing policies by name: what a broker does for each request of a client and each message of a neighbour.

A policy is data: a table of functions, and declarations for hosts and checkers, so that no code tests for a policy by
name. The mechanism (`broker.py`) is the same for all. To try a new routing, nothing here needs to change: write its
functions, put a `Policy` of them into your own module, and pass `module:NAME` to any host or experiment, in any
process. Such a name is accepted only from the user (arguments, configuration), never from a data file or a peer, since
it imports a module.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, TypeVar

from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.language import Filter
from octopia.protocol import (
    Advertise,
    AdvertisementsComplete,
    AskConfirm,
    CibClear,
    CibSet,
    Civ,
    Confirm,
    Dests,
    Header,
    Key,
    LinkNews,
    Message,
    Routes,
    Subscribe,
    SubscriptionsComplete,
    SubscriptionsIncomplete,
    TreeHeader,
    Unadvertise,
    Unsubscribe,
    Waits,
)
from octopia.routing import fdr, scot, tid
from octopia.routing.actions import Action
from octopia.routing.clients import Registered
from octopia.routing.covering import check_kind
from octopia.routing.decision import Decision
from octopia.routing.fdr.state import FdrState
from octopia.routing.scot.state import ScotState
from octopia.routing.state import BrokerState, Setup
from octopia.routing.streams import Streams
from octopia.routing.tid.state import TidState
from octopia.topology import BrokerId, Scot

State = TypeVar("State", bound=BrokerState)
Receive = Callable[[State, BrokerId, Any, float, list[Action]], None]


@dataclass(frozen=True, slots=True)
class Recovery(Generic[State]):
    """How a routing resynchronises its tables: at a start with all links down, and per link event."""

    start_apart: Callable[[State, Scot], None]
    link_went_down: Callable[[State, BrokerId, float, list[Action]], None]
    link_came_up: Callable[[State, BrokerId, float, list[Action]], None]
    link_given_up: Callable[[State, BrokerId, float, list[Action]], None]


@dataclass(frozen=True, slots=True)
class Promises:
    """The guarantees of a routing while nothing fails; the simulator's judges check a run against them.

    `hops_max` is the most hops that a notification takes in an overlay; None if no bound is worth checking.
    `despite_crashes`: while at most k-1 brokers die, nothing is lost, repeated or out of order between brokers that
    stay up.
    """

    exactly_once: bool = True
    once_per_broker: bool = True
    in_order: bool = False
    hops_max: Callable[[Scot], int] | None = None
    despite_crashes: bool = False


@dataclass(frozen=True, slots=True)
class Policy(Generic[State]):
    """One routing: its name, its type of state, its functions, and its declarations.

    `route(state, matched, header, came_by)` decides for all notifications that match the same subscriptions. `matched`
    is the result of the subscription table, `header` is what the copy carries, and `came_by` is the neighbour that sent
    it. For a publication by a client of this broker, `came_by` is None and the header comes from `first_header(state,
    satisfied, now, counts)`, which gets the advertisements that the notification satisfies (at least one, oldest
    first); it need not have the type `header`, which is that of copies. `counts` is how many notifications get it, 0
    for a probe, which leaves no trace. It may change the state, for example to spread notifications over paths.

    `route` is pure: it reads the state and changes nothing. Its decisions are cached (`decide.py`), so they may depend
    only on its arguments, on the entries behind them and, if `Decision.by_links` says so, on the part of the link
    status that `links` distinguishes. `links` is None if the routing does not look at the link status, which then need
    not be reported.

    `pass_on(state, header, came_by)` is for a routing whose copies carry their own destinations. It decides about
    copies without matching, and only by its arguments and by which links are up; `route` is then called for
    publications only. A routing with `pass_on` keeps `BrokerState.passed`. `streams(state, first_sequence)` creates the
    streams of a broker (`streams.py`), if the routing has them.

    Declarations: `keeps_civ`: entries of advertisements have a bit per cluster. `overtakes`: consecutive copies of one
    publisher may take paths of different length, so a later one may arrive first. `confirms`: a registration is in
    force when the brokers of its cluster (for a subscription) or region (for an advertisement) have answered.
    `recovery` is None if the routing cannot resynchronise its tables after a loss. `live`: its header and its messages
    have a wire form. `why(state, now)` tells, in one line, which cluster's tree a notification published at a broker
    now would take, and why; None if there is no choice. `cases` are the names of the cases of its decisions
    (`Decision.case`), which hosts count; () if it does not distinguish any. `is_steady(state, now)`: whether, until the
    next event, `first_header` returns one header for all publications that satisfy the same advertisements; None:
    always. `covering` maps each kind of covering that it supports (`covering.py`) to a function that enables it in the
    state of a new broker.
    """

    name: str
    title: str
    header: type[Header]
    keeps_civ: bool
    overtakes: bool
    confirms: bool
    promises: Promises
    make_state: Callable[[Setup], State]
    advertise: Callable[[State, Key, Filter, list[Action]], None]
    unadvertise: Callable[[State, Key, list[Action]], None]
    subscribe: Callable[[State, Key, Filter, str, str, int, list[Action]], None]
    unsubscribe: Callable[[State, Key, list[Action]], None]
    first_header: Callable[[State, Sequence[Registered], float, int], Header]
    route: Callable[[State, Any, Any, BrokerId | None], Decision]
    links: Callable[[State], Hashable] | None
    receive: Mapping[type[Message], Receive[State]]
    recovery: Recovery[State] | None
    pass_on: Callable[[State, Any, BrokerId], Decision] | None = None
    streams: Callable[[State, int], Streams] | None = None
    live: bool = True
    why: Callable[[State, float], tuple[int, str]] | None = None
    sampled: Callable[[State, float, list[Action]], None] | None = None
    is_steady: Callable[[State, float], bool] | None = None
    cases: tuple[str, ...] = ()
    covering: Mapping[str, Callable[[State], None]] = field(default_factory=dict)


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

_SCOT_RECOVERY = Recovery(
    scot.resync.start_apart, scot.resync.link_went_down, scot.resync.link_came_up, scot.resync.link_given_up
)

_TID_CONTROL: dict[type[Message], Receive[TidState]] = {
    Advertise: tid.advertise.receive_advertise,
    Unadvertise: tid.advertise.receive_unadvertise,
    Subscribe: tid.subscribe.receive_subscribe,
    Unsubscribe: tid.subscribe.receive_unsubscribe,
}


def _scot(name: str, title: str, notify: Any, **declared: Any) -> Policy[ScotState]:
    return Policy(
        name=name,
        title=title,
        header=Civ,
        keeps_civ=True,
        confirms=True,
        make_state=lambda setup: ScotState(setup, scot.interest.BITS, scot.spread.SendAll()),
        advertise=scot.advertise.advertise,
        unadvertise=scot.advertise.unadvertise,
        subscribe=scot.subscribe.subscribe,
        unsubscribe=scot.subscribe.unsubscribe,
        first_header=scot.notify_static.first_header,
        route=notify.route,
        receive=_SCOT_CONTROL,
        recovery=_SCOT_RECOVERY,
        covering={"host": scot.spread.per_host, "link": scot.spread.per_link},
        **declared,
    )


def _fdr() -> Policy[FdrState]:
    return Policy(
        name="fdr",
        title="full dynamic routing",
        header=Dests,
        keeps_civ=True,
        overtakes=True,
        confirms=True,
        promises=Promises(in_order=True, despite_crashes=True, hops_max=_to_a_tree_and_off),
        make_state=lambda setup: FdrState(setup, fdr.interest.LENDS, scot.spread.SendAll()),
        advertise=scot.advertise.advertise,
        unadvertise=fdr.advertise.unadvertise,
        subscribe=scot.subscribe.subscribe,
        unsubscribe=scot.subscribe.unsubscribe,
        first_header=fdr.notify.first_header,
        route=fdr.notify.route,
        pass_on=fdr.notify.pass_on,
        streams=fdr.streams.make,
        links=fdr.notify.links_seen,
        sampled=fdr.notify.sampled,
        is_steady=fdr.notify.is_steady,
        receive={
            **_SCOT_CONTROL,
            CibSet: fdr.advertise.receive_cib_set,
            CibClear: fdr.advertise.receive_cib_clear,
            Confirm: fdr.streams.receive_confirm,
            AskConfirm: fdr.streams.receive_ask_confirm,
            SubscriptionsComplete: fdr.resync.receive_subscriptions_complete,
            SubscriptionsIncomplete: fdr.resync.receive_subscriptions_incomplete,
            LinkNews: fdr.flood.receive_link_news,
            Waits: fdr.notify.receive_waits,
        },
        recovery=Recovery(
            fdr.resync.start_apart, fdr.resync.link_went_down, fdr.resync.link_came_up, fdr.resync.link_given_up
        ),
        why=fdr.why,
        covering={"host": scot.spread.per_host},
    )


def _tid(name: str, title: str, notify: Any, header: type[Header], **declared: Any) -> Policy[TidState]:
    return Policy(
        name=name,
        title=title,
        header=header,
        keeps_civ=False,
        # It registers along advertisement trees, which resynchronisation between neighbours does not follow.
        confirms=False,
        make_state=lambda setup: TidState(setup, tid.spread.OnEveryTree()),
        advertise=tid.advertise.advertise,
        unadvertise=tid.advertise.unadvertise,
        subscribe=tid.subscribe.subscribe,
        unsubscribe=tid.subscribe.unsubscribe,
        first_header=tid.notify_static.first_header,
        route=notify.route,
        receive=_TID_CONTROL,
        recovery=None,
        **declared,
    )


def _diameter(overlay: Scot) -> int:
    return overlay.diameter


def _to_a_tree_and_off(overlay: Scot) -> int:
    """The iLink to the chosen tree, the tree, and the iLink to the destination."""
    return overlay.tree.diameter + (2 if overlay.clusters > 1 else 0)


# What brokers use unless told otherwise: it alone loses nothing while others die.
DEFAULT_ROUTING = "fdr"

POLICIES: Mapping[str, Policy[Any]] = {
    policy.name: policy
    for policy in (
        _scot(
            "snr",
            "static notification routing",
            scot.notify_static,
            links=None,
            overtakes=False,
            promises=Promises(hops_max=_diameter),
        ),
        _scot(
            "idr",
            "inter-cluster dynamic routing",
            scot.notify_dynamic,
            links=scot.notify_dynamic.links_seen,
            cases=scot.notify_dynamic.CASES,
            overtakes=True,
            promises=Promises(),
        ),
        _fdr(),
        _tid(
            "tid",
            "TID routing, static",
            tid.notify_static,
            TreeHeader,
            links=None,
            overtakes=False,
            promises=Promises(),
            covering={"host": tid.spread.per_host, "link": tid.spread.per_link},
        ),
        _tid(
            "tid-dynamic",
            "TID routing, dynamic",
            tid.notify_dynamic,
            Routes,
            links=tid.notify_dynamic.links_seen,
            overtakes=True,
            # it may cross a broker on different trees
            promises=Promises(once_per_broker=False),
            covering={"host": tid.spread.per_host},
        ),
    )
}
_IN_MODULES: dict[str, Policy[Any]] = {}


def policy_named(name: str) -> Policy[Any]:
    """The routing of this name: one of `POLICIES`, or `module:NAME` for a `Policy` in a module of your own."""
    policy = POLICIES.get(name)
    if policy is not None:
        return policy
    if ":" in name:
        return _policy_in_module(name)
    raise _unknown(name, own=True)


def policy_if_known(name: str) -> Policy[Any] | None:
    """The routing of this name, if it is built in or was loaded before; nothing is imported."""
    return POLICIES.get(name) or _IN_MODULES.get(name)


def why_not_live(name: str) -> str | None:
    """Why live brokers cannot use the routing of this name; None if they can."""
    if policy_named(name).live:
        return None
    return f"{name} runs in the simulator and in replays; live brokers do not speak it yet"


def check_covering(routing: str, covering: str) -> None:
    """Refuse a kind of covering that is unknown, or that the routing of this name does not support."""
    check_kind(covering, routing, tuple(policy_named(routing).covering))


def check_routings(names: Sequence[str], *, own: bool) -> None:
    """Refuse a list of routings if one is unknown or repeated; `own`: they may be in the user's modules."""
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


def _policy_in_module(name: str) -> Policy[Any]:
    known = _IN_MODULES.get(name)
    if known is not None:
        return known
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module_name), attribute, None)
    except Exception as error:
        # a user's module may raise anything on import: report it, with the name that led to it
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"routing {name!r}: module {module_name!r} cannot be imported ({reason})") from error
    if not isinstance(found, Policy):
        there = "no such name" if found is None else f"no Policy there, but a value of type {type(found).__name__}"
        raise InputError(f"routing {name!r}: module {module_name!r} has {there}; write it as MODULE:NAME")
    _IN_MODULES[name] = found
    return found
