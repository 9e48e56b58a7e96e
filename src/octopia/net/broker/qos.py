"""Quality of service: the settings that a cluster grants its subscribers, and the bounds of its brokers' queues.

    [qos]                               # for all clusters; its presence makes publishers' brokers note the time
    policy = "drop_oldest"              # for subscriptions that name none
    policies = ["drop_oldest", "block"] # those that a subscription may name; left out: all
    priority = 0                        # for subscriptions that name none
    priority_max = 3                    # the highest that a subscription may name
    deadline_ms = 0                     # for subscriptions that name none; 0: none
    client_queue_frames_max = 10000     # these four instead of what [limits] says
    client_queue_bytes_max = 16777216
    link_queue_frames_max = 50000
    link_queue_bytes_max = 67108864
    tau = 10.0                          # these two instead of what [routing] says
    window_ms = 50
    [[qos.clusters]]                    # for some clusters, instead of what stands above
    clusters = [0]
    priority_max = 1

The cluster is that of the host broker: its settings apply to the clients connected there. A deadline counts from when
the publisher's host broker accepted a notification, by that broker's clock, and is checked by the clock of the
subscriber's broker when it is the notification's turn to be sent. So deadlines are only as accurate as these clocks: if
the clock of the subscriber's broker is ahead, notifications seem older than they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from octopia.errors import InputError, RefusedError
from octopia.net.limits import NetLimits
from octopia.protocol import PRIORITY_MAX
from octopia.routing import CongestionParameters
from octopia.topology import Scot, TomlText
from octopia.wire import DEADLINE_MS_MAX, POLICIES, POLICY_DEFAULT, SubscribeRequest

_LIMITS = ("client_queue_frames_max", "client_queue_bytes_max", "link_queue_frames_max", "link_queue_bytes_max")
_KEYS = ("policy", "policies", "priority", "priority_max", "deadline_ms", *_LIMITS, "tau", "window_ms")


@dataclass(frozen=True)
class Granted:
    """The settings of a subscription. A deadline of 0 means none."""

    policy: str = POLICY_DEFAULT
    priority: int = 0
    deadline_ms: int = 0


@dataclass(frozen=True)
class Qos:
    """The settings of one cluster. `is_timed`: notifications carry their time of acceptance, for deadlines."""

    default: Granted = field(default_factory=Granted)
    policies: tuple[str, ...] = POLICIES
    priority_max: int = PRIORITY_MAX
    is_timed: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)  # of NetLimits
    tau: float | None = None
    window_ms: float | None = None

    def granted(self, asked: SubscribeRequest) -> Granted:
        """The settings granted to a request; raises `RefusedError`."""
        default = self.default
        policy = default.policy if asked.policy is None else asked.policy
        if policy not in self.policies:
            raise RefusedError(
                f"policy {policy} is not allowed in this cluster; allowed are {', '.join(self.policies)}"
            )
        priority = default.priority if asked.priority is None else asked.priority
        if priority > self.priority_max:
            raise RefusedError(f"priority {priority} is not allowed in this cluster; at most {self.priority_max} is")
        deadline_ms = default.deadline_ms if asked.deadline_ms is None else asked.deadline_ms
        if deadline_ms and not self.is_timed:
            raise RefusedError(
                f"a deadline of {deadline_ms} ms cannot be kept: notifications of this overlay do not say when they"
                " were accepted; add a table [qos] to the overlay file of all brokers"
            )
        return Granted(policy, priority, deadline_ms)

    def net_limits(self, general: NetLimits) -> NetLimits:
        return replace(general, **self.limits)

    def congestion(self, general: CongestionParameters) -> CongestionParameters:
        tau = general.tau if self.tau is None else self.tau
        return CongestionParameters(tau, general.window_s if self.window_ms is None else self.window_ms / 1000)


ORDINARY = Qos()


def read_qos(text: TomlText, scot: Scot) -> tuple[Qos, ...]:
    """The settings of each cluster."""
    if "qos" not in text.document:
        return (ORDINARY,) * scot.clusters
    table = text.table("qos", (*_KEYS, "clusters"))
    common = _Part(text, "qos", table, 0).read(Qos(is_timed=True))
    by_cluster = [common] * scot.clusters
    parts = table.get("clusters", [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise text.error("qos", "clusters", "must be tables: write [[qos.clusters]]")
    named: dict[int, int] = {}
    for number, content in enumerate(parts):
        part = _Part(text, "qos.clusters", content, number)
        text.check_keys("qos.clusters", content, ("clusters", *_KEYS), number)
        made = part.read(common)
        for cluster in part.clusters(scot):
            if cluster in named:
                raise part.error("clusters", f"cluster {cluster} is named twice; put what holds there into one table")
            named[cluster] = number
            by_cluster[cluster] = made
    return tuple(by_cluster)


class _Part:
    """[qos], or one of [[qos.clusters]]."""

    def __init__(self, text: TomlText, name: str, content: dict[str, Any], number: int) -> None:
        self._text = text
        self._name = name
        self._content = content
        self._number = number

    def error(self, key: str | None, problem: str) -> InputError:
        return self._text.error(self._name, key, problem, self._number)

    def clusters(self, scot: Scot) -> list[int]:
        given = self._content.get("clusters")
        if not isinstance(given, list) or not given or any(type(each) is not int for each in given):
            raise self.error("clusters" if given else None, "clusters must be a list of cluster numbers, as [0, 2]")
        for cluster in given:
            if not 0 <= cluster < scot.clusters:
                raise self.error(
                    "clusters", f"there is no cluster {cluster}; the clusters are 0 to {scot.clusters - 1}"
                )
        return given

    def read(self, below: Qos) -> Qos:
        """These settings, with defaults from `below`."""
        policies = self._policies(below.policies)
        priority_max = self._whole("priority_max", below.priority_max, PRIORITY_MAX)
        default = Granted(
            self._policy(below.default.policy, policies),
            self._priority(below.default.priority, priority_max),
            self._whole("deadline_ms", below.default.deadline_ms, DEADLINE_MS_MAX),
        )
        made = Qos(
            default,
            policies,
            priority_max,
            below.is_timed,
            {**below.limits, **self._limits()},
            self._number_of("tau", below.tau),
            self._number_of("window_ms", below.window_ms),
        )
        for key in ("tau", "window_ms"):
            if key in self._content:
                self._check_congestion(key)
        return made

    def _policies(self, below: tuple[str, ...]) -> tuple[str, ...]:
        given = self._content.get("policies", list(below))
        if not isinstance(given, list) or not given or any(each not in POLICIES for each in given):
            raise self.error("policies", f"must be a list of some of {', '.join(POLICIES)}")
        return tuple(given)

    def _policy(self, below: str, allowed: tuple[str, ...]) -> str:
        policy = self._content.get("policy", below)
        if policy in allowed:
            return str(policy)
        if "policy" in self._content:
            raise self.error("policy", f"{policy!r} is not among the policies allowed here: {', '.join(allowed)}")
        raise self.error("policies", f"the default, {policy}, is not among them; set policy to one that is")

    def _priority(self, below: int, most: int) -> int:
        priority = self._whole("priority", below, PRIORITY_MAX)
        if priority > most:
            key = "priority" if "priority" in self._content else "priority_max"
            raise self.error(key, f"the default priority, {priority}, is above priority_max, {most}")
        return priority

    def _whole(self, key: str, below: int, most: int) -> int:
        value = self._content.get(key, below)
        if type(value) is not int or not 0 <= value <= most:
            raise self.error(key, f"must be a whole number from 0 to {most:,}, not {value!r}")
        return value

    def _number_of(self, key: str, below: float | None) -> float | None:
        if key not in self._content:
            return below
        return self._text.typed(self._name, self._content, key, float, "a number", 0.0, self._number)

    def _limits(self) -> dict[str, int]:
        given = {key: self._content[key] for key in _LIMITS if key in self._content}
        for key, value in given.items():
            if type(value) is not int or value <= 0:
                raise self.error(key, f"must be a whole number above 0, not {value!r}")
            try:
                NetLimits(**{key: value})
            except InputError as error:
                raise self.error(key, str(error)) from None
        return given

    def _check_congestion(self, key: str) -> None:
        value = self._content[key]
        try:
            CongestionParameters(**{"tau": value} if key == "tau" else {"window_s": value / 1000})
        except ValueError as error:
            raise self.error(key, str(error)) from None
