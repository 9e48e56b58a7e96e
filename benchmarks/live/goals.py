"""The goals of the live overlay and the results: one line for each, from the figures of one or several runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

Figures = dict[str, Any]


class Goal(NamedTuple):
    """One line: the earlier figure, the goal, and where the figures have the result."""

    case: str
    unit: str
    before: str
    goal: float
    reached: Callable[[Figures], float]
    # A server that must be dearer, by name, and where its figure stands.
    rivals: Callable[[Figures], dict[str, float]] = lambda figures: {}


def _case(name: str) -> Callable[[Figures], float]:
    def find(figures: Figures) -> float:
        return next(float(row["cpu_us_each"]) for row in figures["cases"] if row["case"] == name)

    return find


def _peers(load: str) -> Callable[[Figures], dict[str, float]]:
    def find(figures: Figures) -> dict[str, float]:
        return {row["peer"]: row["cpu_us_per_delivery"] for row in figures["peers"]["loads"][load][1:]}

    return find


def _ours(load: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures["peers"]["loads"][load][0]["cpu_us_per_delivery"])


GOALS = (
    Goal("1,000 subscriptions, 200 per read", "µs", "0.75", 0.75, _case("1 broker, 1,000 subscriptions, batched")),
    Goal("the same, backlogged", "µs", "0.92", 0.9, _case("the same, backlogged")),
    Goal("1 → 1, per delivery", "µs", "0.30", 0.3, _ours("1 → 1"), _peers("1 → 1")),
    Goal("1 → 40, per delivery", "µs", "0.31", 0.2, _ours("1 → 40"), _peers("1 → 40")),
    Goal("100,000 subscriptions, no repeats", "µs", "2.45", 2.45, lambda f: float(f["many"]["cpu_us_each"])),
    Goal("one per read, against a bare relay", "×", "1.46", 1.6, lambda f: float(f["floor"]["one_per_read"]["ratio"])),
    Goal("median latency, against a bare relay", "×", "1.45", 1.25, lambda f: float(f["floor"]["latency"]["ratio"])),
    Goal("Python publisher, dicts", "µs", "1.87", 2.0, lambda f: float(f["client"]["dicts"]["cpu_us_each"])),
    Goal("Python publisher, Arrow", "µs", "0.30", 0.3, lambda f: float(f["client"]["arrow"]["cpu_us_each"])),
    Goal("Python subscriber", "µs", "7.4", 3.0, lambda f: float(f["client"]["subscriber"]["cpu_us_each"])),
    Goal(
        "path of three brokers, per broker",
        "µs",
        "1.08",
        1.08,
        lambda f: _case("path of 3 brokers, 1,000 subscriptions, batched")(f) / 3,
    ),
    Goal(
        "path of three brokers, one at a time, together",
        "µs",
        "87-127",
        90,
        _case("path of 3 brokers, one at a time"),
    ),
    Goal("5,000 idle connections, share of a core", "%", "38", 5, lambda f: 100 * float(f["idle"]["share_of_a_core"])),
)


def compared(figures: Figures) -> list[dict[str, Any]]:
    """The goals whose figures are there."""
    lines = []
    for goal in GOALS:
        try:
            reached, rivals = goal.reached(figures), goal.rivals(figures)
        except (KeyError, StopIteration):
            continue
        lines.append(
            {
                "case": goal.case,
                "unit": goal.unit,
                "before": goal.before,
                "goal": goal.goal,
                "reached": reached,
                "met": reached <= goal.goal,
                "rivals": rivals,
            }
        )
    return lines


def show_goals(figures: Figures) -> None:
    console = Console(width=130)
    table = Table(title="Goals of the live overlay: CPU of the server, or a ratio")
    for column in ("case", "before", "goal", "reached", "", "others in the same run"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for line in compared(figures):
        others = ", ".join(f"{name} {value:.2f}" for name, value in line["rivals"].items())
        unit, met = line["unit"], "met" if line["met"] else "missed"
        table.add_row(
            line["case"], line["before"], f"{line['goal']:g} {unit}", f"{line['reached']:.2f} {unit}", met, others
        )
    console.print(table)
    for name, text in (("memory", _memory), ("start", _start)):
        if name in figures:
            console.print(text(figures))


def _memory(figures: Figures) -> str:
    connection = f"A connection takes {figures['memory']['bytes_per_connection']:,.0f} bytes"
    if "many" not in figures:
        return connection
    return f"{connection}, a subscription of 100,000 {figures['many']['bytes_per_subscription']:,.0f}"


def _start(figures: Figures) -> str:
    warm, cold = figures["start"]["with_compiled_code"], figures["start"]["without"]
    return (
        f"A broker listens after {warm['cpu_s']:.1f} s of CPU with compiled code on disk, "
        f"after {cold['cpu_s']:.1f} s without"
    )
