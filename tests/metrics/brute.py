"""Every metric once more, each as a function of its name in plain Python over lists of rows: loops and sums, no SQL, no
code of the package.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.metrics.traces import Rows, S, Trace

Facts = dict[str, int]
Found = dict[str, float | None]


def mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def centile(values: list[int], share: float) -> float | None:
    """Between the two values around the place, in proportion."""
    if not values:
        return None
    ordered, place = sorted(values), share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: list[int]) -> Found:
    found = {"mean": mean(values), "p50": centile(values, 0.5), "p95": centile(values, 0.95)}
    found |= {"p99": centile(values, 0.99), "maximum": max(values, default=None)}
    return {"number": float(len(values))} | {k: None if v is None else v / S for k, v in found.items()}


def good(trace: Trace, kind: str) -> Rows:
    return [r for r in trace["requests"] if r["kind"] == kind and r["handled_ns"] is not None and r["refused"] is None]


def advertisement_delay(trace: Trace, facts: Facts) -> Found:
    delays = []
    for request in good(trace, "advertise"):
        first: dict[int, int] = {}
        for h in trace["hops"]:
            own = h["request"] == request["request"] and h["kind"] == "advertise"
            if own and h["receiver"] != request["broker"] and h["handled_ns"] is not None:
                first[h["receiver"]] = min(first.get(h["receiver"], h["handled_ns"]), h["handled_ns"])
        delays.append(max([request["handled_ns"], *first.values()]) - request["issued_ns"])
    return spread(delays)


def _subscriptions(trace: Trace, facts: Facts, wanted: Callable[[str], bool]) -> Found:
    delays = []
    for request in good(trace, "subscribe"):
        same = [h for h in trace["hops"] if h["request"] == request["request"] and wanted(h["kind"])]
        ends = [h["handled_ns"] for h in same if h["handled_ns"] is not None]
        delays.append(max([request["handled_ns"], *ends]) - request["issued_ns"])
    return spread(delays)


subscription_delay = partial(_subscriptions, wanted=lambda kind: kind == "subscribe")
subscription_ready_delay = partial(_subscriptions, wanted=lambda kind: kind != "notify")


def _sizes(trace: Trace, facts: Facts, column: str) -> Found:
    last = max(row["at_ns"] for row in trace["table_sizes"])
    sizes = [row[column] for row in trace["table_sizes"] if row["at_ns"] == last]
    return {"mean": mean(sizes), "maximum": max(sizes), "total": sum(sizes)}


srt_entries, prt_entries = partial(_sizes, column="srt"), partial(_sizes, column="prt")


def messages(trace: Trace, facts: Facts) -> Found:
    kinds = [h["kind"] for h in trace["hops"]]
    found: Found = {kind: float(kinds.count(kind)) for kind in sorted(set(kinds))}
    return found | {"all": float(len(kinds))}


def messages_caused(trace: Trace, facts: Facts) -> Found:
    found: Found = {}
    for kind in sorted({r["kind"] for r in trace["requests"]}):
        numbers = {r["request"] for r in trace["requests"] if r["kind"] == kind}
        found[kind] = sum(h["request"] in numbers for h in trace["hops"])
    return found


def _crossed(trace: Trace) -> list[Any]:
    site = {b["broker"]: b["site"] for b in trace["brokers"]}
    ends = [(h, site[h["sender"]], site[h["receiver"]]) for h in trace["hops"]]
    return [h for h, one, other in ends if one is not None and other is not None and one != other]


def messages_between_sites(trace: Trace, facts: Facts) -> Found:
    cause = {r["request"]: r["kind"] for r in trace["requests"]}
    crossed = [cause.get(h["request"]) for h in _crossed(trace)]
    return {kind: float(crossed.count(kind)) for kind in sorted(set(cause.values()))}


def copies_between_sites(trace: Trace, facts: Facts) -> Found:
    copies = sum(h["kind"] == "notify" for h in trace["hops"])
    number = sum(h["kind"] == "notify" for h in _crossed(trace))
    published = sum(r["kind"] == "publish" for r in trace["requests"])
    if not copies:
        return {"number": 0, "share": None, "per_notification": None}
    return {
        "number": number,
        "share": number / copies,
        "per_notification": number / published if published else None,
    }


def publishing_messages(trace: Trace, facts: Facts) -> Found:
    kinds = [h["kind"] for h in trace["hops"]]
    return {
        "copies": kinds.count("notify"),
        "confirmations": kinds.count("confirm"),
        "news": kinds.count("link_news"),
        "waits": kinds.count("waits"),
    }


def messages_per_request(trace: Trace, facts: Facts) -> Found:
    totals = messages_caused(trace, facts)
    return {k: (v or 0) / sum(r["kind"] == k for r in trace["requests"]) for k, v in totals.items()}


def _issued(trace: Trace) -> dict[int, int]:
    return {r["request"]: r["issued_ns"] for r in trace["requests"]}


def _delays(trace: Trace, which: Callable[[bool], bool] = lambda high: True) -> list[int]:
    requests = {r["request"]: r for r in trace["requests"]}
    names = {c["client"]: c["name"] for c in trace["clients"]}
    return [
        d["delivered_ns"] - requests[d["request"]]["issued_ns"]
        for d in trace["deliveries"]
        if which(names[requests[d["request"]]["client"]].startswith("high-rate"))
    ]


def notification_delay(trace: Trace, facts: Facts, which: Callable[[bool], bool] = lambda high: True) -> Found:
    return spread(_delays(trace, which))


high_rate_delay = partial(notification_delay, which=lambda high: high)
others_delay = partial(notification_delay, which=lambda high: not high)


def _by_pair(trace: Trace) -> dict[tuple[int, int], Rows]:
    """Deliveries by subscriber and publisher."""
    publisher = {r["request"]: r["client"] for r in trace["requests"]}
    pairs: dict[tuple[int, int], Rows] = {}
    for d in trace["deliveries"]:
        pairs.setdefault((d["client"], publisher[d["request"]]), []).append(d)
    return pairs


def in_order_delay(trace: Trace, facts: Facts) -> Found:
    issued = _issued(trace)
    delays = []
    for rows in _by_pair(trace).values():
        for d in rows:
            complete = max(other["delivered_ns"] for other in rows if other["request"] <= d["request"])
            delays.append(complete - issued[d["request"]])
    return spread(delays)


def out_of_order(trace: Trace, facts: Facts) -> Found:
    late = [
        any(o["request"] > d["request"] and o["delivered_ns"] < d["delivered_ns"] for o in rows)
        for rows in _by_pair(trace).values()
        for d in rows
    ]
    return {"number": sum(late), "share": mean(late)}


def delay_over_time(trace: Trace, facts: Facts) -> list[tuple[str, float, float]]:
    issued = _issued(trace)
    slots: dict[int, list[int]] = {}
    for d in trace["deliveries"]:
        slot = (d["delivered_ns"] - facts["publish_from_ns"]) // S
        slots.setdefault(slot, []).append(d["delivered_ns"] - issued[d["request"]])
    rows = [("mean", float(slot), sum(delays) / len(delays) / S) for slot, delays in slots.items()]
    return sorted(rows + [("longest", float(slot), max(delays) / S) for slot, delays in slots.items()])


def under_bound(trace: Trace, facts: Facts) -> Found:
    def share(delays: list[int]) -> float | None:
        return mean(delay < facts["delay_bound_ns"] for delay in delays)

    return {
        "overall": share(_delays(trace)),
        "high_rate": share(_delays(trace, lambda high: high)),
        "others": share(_delays(trace, lambda high: not high)),
    }


def _blocks(trace: Trace, facts: Facts) -> list[tuple[int, int]]:
    """For every block of deliveries in order of receipt, the last time and the greatest delay."""
    issued = _issued(trace)
    order = sorted(trace["deliveries"], key=lambda d: (d["delivered_ns"], d["request"], d["client"]))
    size = facts["block_notifications"]
    blocks = [order[first : first + size] for first in range(0, len(order), size)]
    return [(b[-1]["delivered_ns"], max(d["delivered_ns"] - issued[d["request"]] for d in b)) for b in blocks]


def max_delay(trace: Trace, facts: Facts) -> list[tuple[str, float, float]]:
    return [("", (at - facts["publish_from_ns"]) / S, delay / S) for at, delay in _blocks(trace, facts)]


def stabilisation_time(trace: Trace, facts: Facts) -> Found:
    blocks = _blocks(trace, facts)
    late = [number for number, (_, delay) in enumerate(blocks) if delay >= facts["delay_bound_ns"]]
    if not blocks or (late and late[-1] == len(blocks) - 1):
        return {"seconds": None}
    return {"seconds": (blocks[late[-1]][0] - facts["publish_from_ns"]) / S if late else 0.0}


def matching_delay(trace: Trace, facts: Facts) -> Found:
    jobs: dict[int, list[tuple[int, int, bool]]] = {}
    for h in trace["hops"]:
        if h["handled_ns"] is not None:
            jobs.setdefault(h["receiver"], []).append((h["handled_ns"], h["arrived_ns"], h["kind"] == "notify"))
    for r in trace["requests"]:
        if r["handled_ns"] is not None:
            arrived = r["issued_ns"] + facts["client_delay_ns"]
            jobs.setdefault(r["broker"], []).append((r["handled_ns"], arrived, r["kind"] == "publish"))
    times = []
    for served in jobs.values():
        free = None
        for handled, arrived, counts in sorted(served):
            begin = arrived if free is None else max(free, arrived)
            if counts:
                times.append(handled - begin - facts["processor_base_ns"])
            free = handled
    return spread(times)


def deliveries(trace: Trace, facts: Facts) -> Found:
    published = sum(r["kind"] == "publish" for r in trace["requests"])
    return {"number": len(trace["deliveries"]), "per_notification": len(trace["deliveries"]) / published}


def delivery_hops(trace: Trace, facts: Facts) -> Found:
    hops = [d["hop"] for d in trace["deliveries"]]
    return {"mean": mean(hops), "maximum": max(hops)}


def pure_forwards(trace: Trace, facts: Facts) -> Found:
    served = {(d["request"], d["broker"]) for d in trace["deliveries"]}
    copies = [h for h in trace["hops"] if h["kind"] == "notify" and h["handled_ns"] is not None]
    pure = sum((h["request"], h["receiver"]) not in served for h in copies)
    published = sum(r["kind"] == "publish" for r in trace["requests"])
    return {"number": pure, "share": pure / len(copies), "per_notification": pure / published}


def _high_rate(trace: Trace) -> tuple[Rows, Rows, set[tuple[int, int]]]:
    """Its publications, their copies from its host broker, and the links of these."""
    names = {c["client"]: c["name"] for c in trace["clients"]}
    own = [r for r in trace["requests"] if names[r["client"]].startswith("high-rate") and r["kind"] == "publish"]
    host = {r["request"]: r["broker"] for r in own}
    copies = [h for h in trace["hops"] if h["kind"] == "notify" and host.get(h["request"]) == h["sender"]]
    return own, copies, {(h["sender"], h["receiver"]) for h in copies}


def high_rate_queue(trace: Trace, facts: Facts) -> Found:
    own, copies, links = _high_rate(trace)
    start, sent = min(r["issued_ns"] for r in own), max(r["issued_ns"] for r in own)
    empty = max(h["left_ns"] for h in copies)

    def average(until: int) -> float:
        area = 0.0
        for h in trace["hops"]:
            if (h["sender"], h["receiver"]) in links:
                area += max(0, min(h["left_ns"], until) - max(h["queued_ns"], start))
        return float(area / (until - start) / len(links))

    found = mean(h["queue"] for h in copies)
    return {"until_empty": average(empty), "while_sending": average(sent), "found": found, "links": len(links)}


def _over_time(trace: Trace, facts: Facts, value: Callable[[list[int]], dict[str, float]], keep: Any) -> list[Any]:
    moments: dict[int, list[int]] = {}
    for q in trace["queues"]:
        if keep(q) and q["at_ns"] >= facts["publish_from_ns"]:
            moments.setdefault(q["at_ns"], []).append(q["queue"])
    rows = []
    for at, lengths in moments.items():
        rows += [(part, (at - facts["publish_from_ns"]) / S, found) for part, found in value(lengths).items()]
    return sorted(rows)


def high_rate_queue_over_time(trace: Trace, facts: Facts) -> list[Any]:
    _, _, links = _high_rate(trace)
    return _over_time(
        trace,
        facts,
        lambda lengths: {"mean": sum(lengths) / len(links), "longest": max(lengths)},
        lambda q: (q["sender"], q["receiver"]) in links,
    )


def queue_over_time(trace: Trace, facts: Facts) -> list[Any]:
    return _over_time(trace, facts, lambda lengths: {"total": sum(lengths), "longest": max(lengths)}, lambda q: True)


def link_queues(trace: Trace, facts: Facts) -> list[Any]:
    span = facts["publish_until_ns"] - facts["publish_from_ns"]
    links: dict[tuple[int, int], Rows] = {}
    for h in trace["hops"]:
        if h["queued_ns"] >= facts["publish_from_ns"]:
            links.setdefault((h["sender"], h["receiver"]), []).append(h)
    return [
        (*link, len(rows), sum(h["left_ns"] - h["queued_ns"] for h in rows) / span, max(h["queue"] for h in rows) + 1)
        for link, rows in sorted(links.items())
    ]


def link_queue(trace: Trace, facts: Facts) -> Found:
    rows = link_queues(trace, facts)
    means = [row[3] for row in rows]
    return {"mean": mean(means), "busiest": max(means), "longest": max(row[4] for row in rows)}


def burst_delay(trace: Trace, facts: Facts) -> Found:
    names = {c["client"]: c["name"] for c in trace["clients"]}
    published = {r["request"]: r for r in trace["requests"]}
    delays: dict[str, list[int]] = {}
    for d in trace["deliveries"]:
        request = published[d["request"]]
        name = names[request["client"]]
        if name.startswith("high-rate"):
            delays.setdefault(name, []).append(d["delivered_ns"] - request["issued_ns"])
    return {name: sum(found) / len(found) / S for name, found in delays.items()}


def _elements(trace: Trace, facts: Facts) -> dict[tuple[int, int], dict[int, tuple[int, int]]]:
    """By link and number of the window Q_in and Q_out: the whole life of every queue, window after window."""
    _, _, links = _high_rate(trace)
    width, start = facts["window_ns"], facts["publish_from_ns"]
    found: dict[tuple[int, int], dict[int, tuple[int, int]]] = {link: {} for link in links}
    for link, windows in found.items():
        own = [h for h in trace["hops"] if (h["sender"], h["receiver"]) == link]
        for number in range(max(h["left_ns"] for h in own) // width + 2):
            begin, end = number * width, (number + 1) * width
            entered = sum(begin <= h["queued_ns"] < end and h["queued_ns"] >= start for h in own)
            left = sum(begin < h["left_ns"] <= end and h["left_ns"] > start for h in own)
            if entered or left:
                windows[number] = entered, left
    return found


def congestion_element(trace: Trace, facts: Facts) -> Found:
    below = above = longest = 0
    for windows in _elements(trace, facts).values():
        runs = [0]
        for number in range(max(windows, default=0) + 1):
            entered, left = windows.get(number, (0, 0))
            above += (1 + entered) / (1 + left) > 1
            if (1 + entered) / (1 + left) < 1:
                below += 1
                runs[-1] += 1
            else:
                runs.append(0)
        longest += max(runs)
    scale = facts["window_ns"] / S / len(_elements(trace, facts))
    return {"below": below * scale, "longest_below": longest * scale, "above": above * scale}


def congestion_element_over_time(trace: Trace, facts: Facts) -> list[Any]:
    width, start = facts["window_ns"], facts["publish_from_ns"]
    of_links = _elements(trace, facts)
    seconds: dict[int, list[tuple[int, int]]] = {}
    for windows in of_links.values():
        for number, moved in windows.items():
            seconds.setdefault(max(0, number * width - start) // S, []).append(moved)
    rows: list[Any] = []
    for second, all_moved in seconds.items():
        windows_in = len(of_links) * S / width
        entered, left = (
            sum(q_in for q_in, _ in all_moved) / windows_in,
            sum(q_out for _, q_out in all_moved) / windows_in,
        )
        rows.append(("mean", second, (1 + entered) / (1 + left)))
        rows.append(("largest", second, max((1 + q_in) / (1 + q_out) for q_in, q_out in all_moved)))
    return sorted(rows)


def _decisions(trace: Trace) -> dict[str, dict[tuple[int, int], Rows]]:
    found: dict[str, dict[tuple[int, int], Rows]] = {}
    for h in trace["hops"]:
        if h.get("routing_case") is not None:
            found.setdefault(h["routing_case"], {}).setdefault((h["request"], h["sender"]), []).append(h)
    return found


def routing_cases(trace: Trace, facts: Facts) -> Found:
    return {case: len(decisions) for case, decisions in _decisions(trace).items()}


def routing_case_copies(trace: Trace, facts: Facts) -> Found:
    return {case: sum(map(len, decisions.values())) for case, decisions in _decisions(trace).items()}


def routing_case_saved(trace: Trace, facts: Facts) -> Found:
    return {
        case: sum((h.get("civ") or "").count("1") for copies in decisions.values() for h in copies)
        for case, decisions in _decisions(trace).items()
    }


def _changes(trace: Trace, facts: Facts) -> Rows:
    kinds = ("advertise", "unadvertise", "subscribe", "unsubscribe")
    return [r for r in trace["requests"] if r["kind"] in kinds and r["issued_ns"] >= facts["publish_from_ns"]]


def _place(trace: Trace, host: int, brokers: list[int]) -> str:
    """Where these brokers are, seen from a host broker."""
    home = trace["brokers"][host]
    others = [trace["brokers"][broker] for broker in brokers]
    for name in ("cluster", "region"):
        if all(other[name] == home[name] for other in others):
            return name
    return "elsewhere"


def _per_change(trace: Trace, facts: Facts, places: Callable[[dict[str, Any]], list[str]]) -> Found:
    found: Found = {}
    for kind in {r["kind"] for r in _changes(trace, facts)}:
        each = [places(r) for r in _changes(trace, facts) if r["kind"] == kind]
        found[kind] = mean(map(len, each))
        found |= {f"{kind}_{place}": mean(p.count(place) for p in each) for place in ("cluster", "region", "elsewhere")}
    return found


def _messages_of(trace: Trace, change: dict[str, Any]) -> list[str]:
    own = [h for h in trace["hops"] if h["request"] == change["request"]]
    return [_place(trace, change["broker"], [h["sender"], h["receiver"]]) for h in own]


def change_messages(trace: Trace, facts: Facts) -> Found:
    return _per_change(trace, facts, lambda change: _messages_of(trace, change))


def change_brokers(trace: Trace, facts: Facts) -> Found:
    def places(change: dict[str, Any]) -> list[str]:
        own = [h for h in trace["hops"] if h["request"] == change["request"] and h["handled_ns"] is not None]
        return [_place(trace, change["broker"], [b]) for b in {change["broker"], *(h["receiver"] for h in own)}]

    return _per_change(trace, facts, places)


def change_inside(trace: Trace, facts: Facts) -> Found:
    found: dict[str, list[str]] = {}
    for change in _changes(trace, facts):
        found.setdefault(change["kind"], []).extend(_messages_of(trace, change))
    return {kind: mean(place != "elsewhere" for place in places) for kind, places in found.items() if places}


def change_delay(trace: Trace, facts: Facts) -> Found:
    delays: dict[str, list[float]] = {}
    for change in _changes(trace, facts):
        if change["handled_ns"] is not None:
            own = [h["handled_ns"] for h in trace["hops"] if h["request"] == change["request"]]
            end = max([change["handled_ns"], *(moment for moment in own if moment is not None)])
            delays.setdefault(change["kind"], []).append((end - change["issued_ns"]) / S)
    return {kind: mean(found) for kind, found in delays.items()}
