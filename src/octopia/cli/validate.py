"""`octopia validate`: compare the simulator with live brokers and calibrate a model of this machine.

This file handles options and tables; `octopia.experiments` runs and compares. Exit codes: 0 every promise held and,
under static routing, all message counts are equal; 1 otherwise.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli import options
from octopia.cli.settings_options import with_options
from octopia.cli.terminal import err, out, say, table

if TYPE_CHECKING:
    from octopia.experiments import Validation

OUT_DEFAULT = Path("out/validate")
_STATIC = ("snr",)


def validate(
    overlay: Annotated[str | None, options.overlay_option("path:3")] = None,
    clusters: Annotated[int | None, options.clusters_option("3")] = None,
    rates: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Notifications per minute of each publisher.", show_default="600,6000,24000"),
    ] = None,
    systems: Annotated[str | None, options.systems_option("snr,idr")] = None,
    publishers: Annotated[int | None, options.publishers_option("10")] = None,
    subscribers: Annotated[int | None, options.subscribers_option("60")] = None,
    notifications: Annotated[int | None, options.notifications_option("200")] = None,
    model: Annotated[str | None, options.model_option("live")] = None,
    processes: Annotated[
        int | None, typer.Option(metavar="N", help="Number of broker processes.", show_default="cores")
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Also write the calibrated model to this file.")
    ] = None,
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for traces and results.")] = OUT_DEFAULT,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other experiment setting; repeatable.")
    ] = None,
    write_docs: Annotated[
        Path | None, typer.Option(metavar="DOCS", help="Also write tables and plots to DOCS/validation.md.")
    ] = None,
) -> None:
    """Compare the simulator with live brokers: run the same workload on both and show the differences.

    Message counts must be equal under static routing; delays and queues are as close as the model is. The slowest live
    run calibrates a model, and the comparison is repeated with it.
    """
    from octopia.experiments import VALIDATION, changed, parse_value, write_validation_page
    from octopia.experiments import validate as run

    given: dict[str, Any] = {
        "overlay": overlay,
        "clusters": clusters,
        "points": None if rates is None else [parse_value(part.strip()) for part in rates.split(",")],
        "systems": options.listed(systems),
        "publishers": publishers,
        "subscribers": subscribers,
        "notifications_per_publisher": notifications,
        "model": model,
        "processes": processes,
    }
    settings = VALIDATION.settings
    if overlay is not None and clusters is None:
        # The tree's or the file's own number of clusters.
        settings = changed(settings, {"clusters": None}, "--overlay")
    settings = with_options(settings, sets or (), given)
    done = run(settings, folder, on_run=lambda text: say(err(), text, "dim"))
    if calibrate is not None:
        from octopia.testbed import model_toml

        calibrate.write_text(model_toml(done.after), encoding="utf-8")
    if write_docs is not None:
        command = " ".join(["octopia validate", *_given(given)])
        say(out(), f"Renewed: {write_validation_page(done, folder, write_docs, command)}")
    sys.exit(_show(done, folder))


def _given(given: dict[str, Any]) -> list[str]:
    """The options that were given, as on the command line."""
    names = {"points": "rates", "notifications_per_publisher": "notifications"}
    found = []
    for key, value in given.items():
        if value is not None:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            found.append(f"--{names.get(key, key)} {text}")
    return found


def _show(done: "Validation", folder: Path) -> int:
    from octopia.experiments import VALIDATION_HEADS, validation_notes, validation_rows

    console = out()
    shown = table(*(head if place in (0, 2) else f"#{head}" for place, head in enumerate(VALIDATION_HEADS)))
    for row in validation_rows(done):
        shown.add_row(*row)
    console.print(shown)
    for words in validation_notes(done):
        say(console, words)
    say(console, f"Calibrated model: {folder / 'calibrated.toml'}")
    for each, side, finding in done.broken:
        say(
            err(),
            f"{each.system} at {each.rate_per_minute:g}, {side}: {finding.cases:,} × not true: {finding.rule}",
            "red",
        )
    unequal = any(each.unequal("model") for each in done.compared if each.system in _STATIC)
    if unequal:
        say(err(), "Numbers of messages differ under static routing: see above", "red")
    return 1 if done.broken or unequal else 0
