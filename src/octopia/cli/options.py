"""Options that several commands have, each defined once.

An option that stands for a setting of an experiment is a function of the default to show, which each command has its
own: `publishers: Annotated[int | None, publishers_option("100")] = None`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LateAfterOption = Annotated[
    float | None, typer.Option(metavar="S", help="Count slower deliveries as late.", show_default="never")
]
SeedOption = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
# of commands that read a scenario
ScenarioArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file: JSON, or TOML by its suffix.")]
RoutingOption = Annotated[
    str | None,
    typer.Option("--routing", "-r", metavar="ROUTING", help="snr, idr, fdr, tid or tid-dynamic; default: the file's."),
]
# of commands that use Spark
MasterOption = Annotated[str, typer.Option(metavar="URL", help="Spark master.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Spark configuration; repeatable.")
]
RetriesOption = Annotated[int, typer.Option(metavar="N", help="How often to retry a failed run.")]


def _setting(metavar: str, text: str, *names: str) -> Callable[[str | bool], Any]:
    """An option for a setting; its name is that of the parameter unless names are given."""

    def option(default: str | bool) -> Any:
        return typer.Option(*names, metavar=metavar, help=text, show_default=default)

    return option


systems_option = _setting("A,B", "Systems to compare.")
overlay_option = _setting("TREE|FILE.toml", "Overlay, as for octopia topology.")
clusters_option = _setting("K", "Number of clusters.", "--clusters", "-k")
publishers_option = _setting("N", "Number of publishers.")
subscribers_option = _setting("N", "Number of subscribers.")
notifications_option = _setting("N", "Notifications per publisher.")
rate_option = _setting("N", "Notifications per minute of each publisher.")
selectivity_option = _setting("SHARE", "Share of notifications that match a subscription.")
shape_option = _setting("WORD", "Subscriptions: symbols, ranges or mixed.")
model_option = _setting("NAME|FILE.toml", "Cost model: paper, live, instant or a file.")


def listed(text: str | None) -> list[str] | None:
    """The parts of an option such as `snr,idr`; None if it was not given."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
