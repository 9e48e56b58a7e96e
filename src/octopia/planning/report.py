"""The page of a plan: its benefit first, then the proof, the current cost, and the search."""

from collections.abc import Sequence
from html import escape

from octopia.drawing import overlay_svg
from octopia.errors import OctopiaError
from octopia.experiments import bars_plot, page_html, plot_html, shown_value, table_html
from octopia.planning.plan import BEFORE, Costs, Plan
from octopia.planning.replay import Measured

_ROWS_SHOWN = 15
_FILES = (
    "<p class=soft>All of it as JSON: plan.json. Each proposal that was not rejected has an overlay file, NAME.toml, "
    "for octopia serve and --overlay, and NAME-clients.csv, with each client's broker before and after.</p>"
)


def plan_page(plan: Plan) -> str:
    """One self-contained HTML file."""
    parts = [
        f"<h1>{escape(headline(plan))}</h1>",
        _setting(plan),
        _checks(plan),
        _pictures(plan),
        _proposals(plan),
        _controls(plan),
        _other_routings(plan),
        _shapes(plan),
        _costs("What publishers cost now", plan.publishers),
        _costs("What subscribers cost now", plan.subscribers),
        _filters(plan),
        _FILES,
    ]
    return page_html("plan", "\n".join(parts))


def headline(plan: Plan) -> str:
    """The result in one sentence."""
    if not plan.recommended:
        return f"Keep the overlay: with the same {plan.brokers} brokers, no proposal was better in its replay"
    copies = percent(plan.change(plan.recommended, "copies"))
    delay = percent(plan.change(plan.recommended, "delay_mean_s"))
    return f"With the same {plan.brokers} brokers: messages {copies}, mean delay {delay}"


def percent(change: float | None) -> str:
    """`−53 %`; with a decimal near the end of the scale, since −99.6 % is not everything."""
    if change is None:
        return "–"
    digits = 1 if 0.95 < abs(change) < 1 or abs(change) < 0.1 else 0
    return f"{'+' if change > 0 else '−' if change < 0 else ''}{abs(change) * 100:.{digits}f} %"


def _setting(plan: Plan) -> str:
    known = "" if plan.flows_kept > 0.9995 else f" The flows used are {plan.flows_kept:.0%} of these notifications."
    return (
        f"<p>From the trace of {escape(plan.routing.upper())} in {escape(plan.source)}. Planned with the first "
        f"{plan.plan_share:.0%} of every publisher's notifications ({plan.notifications_planned:,}, in {plan.flows:,} "
        f"flows), proved on the other {plan.notifications_proved:,}, which the search has not seen.{known} No broker "
        f"has more than {plan.clients_max} clients. For the first part the cost model says "
        f"{plan.model_messages:,} messages; the trace has {plan.trace_messages:,}.</p>"
    )


def _checks(plan: Plan) -> str:
    replays = len(plan.measured) + len(plan.controls) + len(plan.other_routings)
    if not plan.broken:
        return f"<p class=good>All {replays} replays passed all checks: every notification arrived exactly once.</p>"
    return f"<p class=bad>Not all replays passed: {escape('; '.join(plan.broken))}</p>"


def _pictures(plan: Plan) -> str:
    best = next((each for each in plan.proposals if each.name == plan.recommended), None)
    try:
        panels = {
            "Messages between brokers": ("", {each.name: float(each.copies) for each in plan.measured}),
            "Mean delay": ("s", {each.name: each.delay_mean_s or 0.0 for each in plan.measured}),
        }
        bars = plot_html(bars_plot("plan", panels)["svg"])
        drawn = [
            (bars, "Replays of the second part, before and after each proposal", "wide"),
            (overlay_svg(plan.before.overlay), f"Before: {plan.before.overlay}", "card"),
        ]
        if best is not None:
            drawn.append((overlay_svg(best.overlay), f"Proposed ({best.name}): {best.overlay}", "card"))
    except OctopiaError as error:
        return f"<p class=soft>No pictures: {escape(str(error))}</p>"
    figures = "".join(
        f"<figure class={kind}>{svg}<figcaption>{escape(words)}</figcaption></figure>" for svg, words, kind in drawn
    )
    return f"<div class=row>{figures}</div>"


def _proposals(plan: Plan) -> str:
    words = {each.name: each for each in (plan.before, *plan.proposals)}
    rejected = {name: f" (rejected: {why})" for name, why in plan.rejected.items()}
    rows = []
    for each in plan.measured:
        made = words[each.name]
        predicted = "" if made.predicted_messages is None else f"{made.predicted_messages:,}"
        rows.append(
            [
                each.name + (" (recommended)" if each.name == plan.recommended else rejected.get(each.name, "")),
                made.words,
                f"{made.clusters} × {len(made.nodes)}",
                f"{made.moved_clients:,}",
                predicted,
                *_values(plan, each),
            ]
        )
    head = ("proposal", "what changes", "#clusters × regions", "#clients moved", "#messages, predicted", *_HEADS)
    return (
        "<h2>Before and after</h2>"
        + table_html(head, rows)
        + "<p class=soft>Predicted: by the cost model on the first part. All other numbers: replays of the second part "
        f"under {escape(plan.routing.upper())}. A proposal is rejected if its replay has more messages, or a longer "
        "mean delay, than before.</p>"
    )


_HEADS = (
    "#messages",
    "#",
    "#mean delay",
    "#",
    "#p99 delay",
    "#hops",
    "#deliveries",
    "#messages to subscribe",
    "#PRT entries",
    "checks",
)


def _values(plan: Plan, each: Measured) -> list[str]:
    now = plan.measured_of(BEFORE)

    def change(what: str) -> str:
        old, new = getattr(now, what), getattr(each, what)
        return "" if each is now or not old or new is None else percent(new / old - 1)

    return [
        f"{each.copies:,}",
        change("copies"),
        shown_value(each.delay_mean_s, "s"),
        change("delay_mean_s"),
        shown_value(each.delay_p99_s, "s"),
        shown_value(each.hops_mean, ""),
        f"{each.deliveries:,}",
        f"{each.subscribe_messages:,}",
        shown_value(each.prt_mean, ""),
        "passed" if not each.broken else "; ".join(each.broken),
    ]


def _controls(plan: Plan) -> str:
    rows = [[each.name, *_values(plan, each)] for each in plan.controls]
    return (
        "<h2>Control: clients at random</h2><p>If these were as good as a proposal, its gain would be luck.</p>"
        + table_html(("placement", *_HEADS), rows)
    )


def _other_routings(plan: Plan) -> str:
    if not plan.other_routings:
        return ""
    rows = [[each.routing.upper(), each.name, *_values(plan, each)] for each in plan.other_routings]
    return (
        "<h2>What another routing would give</h2><p>Beside the plan, not part of it: changes are against "
        f"{escape(plan.routing.upper())} before.</p>" + table_html(("routing", "", *_HEADS), rows)
    )


def _shapes(plan: Plan) -> str:
    rows = [
        [
            str(each.clusters),
            str(each.regions),
            f"{each.links:,}",
            "–" if each.messages is None else f"{each.messages:,}",
            "–" if each.hops is None else f"{each.hops:,}",
            each.left_out,
        ]
        for each in plan.tried
    ]
    heads = ("#clusters", "#regions", "#links", "#messages", "#hops", "left out")
    return (
        "<h2>Numbers of clusters that were tried</h2><p>With the clients where they are; messages and hops by the cost "
        "model, on the first part.</p>" + table_html(heads, rows)
    )


def _costs(title: str, costs: Sequence[Costs]) -> str:
    rows = [
        [
            each.client,
            each.broker,
            f"{each.notifications:,}",
            f"{each.deliveries:,}",
            f"{each.messages:,.0f}",
            shown_value(each.hops_mean, ""),
            shown_value(each.delay_mean_s, "s"),
            shown_value(each.queue_s, "s"),
            shown_value(each.links_s, "s"),
            shown_value(each.brokers_s, "s"),
            f"{each.setup_messages:,}",
        ]
        for each in costs[:_ROWS_SHOWN]
    ]
    head = ["client", "broker", "#notifications", "#deliveries", "#messages", "#hops", "#mean delay"]
    head += ["#in queues", "#on links", "#in brokers", "#messages to register"]
    more = f"<p class=soft>{len(costs):,} in all; the rest is in plan.json.</p>" if len(costs) > len(rows) else ""
    return f"<h2>{escape(title)}</h2>" + table_html(head, rows) + more


def _filters(plan: Plan) -> str:
    relations = plan.relations
    covered = [
        [relations.filters[each.wide], f"{each.count:,}", relations.filters[each.narrow[0]]]
        for each in sorted(relations.covered, key=lambda each: (-each.count, each.wide))[:_ROWS_SHOWN]
    ]
    alike = [
        [relations.filters[each.one], relations.filters[each.other], f"{each.likeness:.0%}", f"{each.either:,}"]
        for each in plan.pairs[:_ROWS_SHOWN]
    ]
    return (
        f"<h2>Filters</h2><p>{sum(map(len, relations.holders)):,} subscriptions have {len(relations.filters):,} "
        f"different filters; {relations.repeated:,} repeat another one, and {relations.below:,} of the different "
        f"ones are covered by another.</p>"
        + (table_html(("filter", "#covers", "for example"), covered) if covered else "")
        + (
            f"<p>The most similar pairs on the first part; from {plan.likeness_min:.0%} on, they are merged.</p>"
            + table_html(("filter", "and", "#likeness", "#notifications of either"), alike)
            if alike
            else ""
        )
    )
