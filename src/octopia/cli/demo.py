"""`octopia demo`: the whole pipeline at small scale, from quotes to a report, plus the paper's scenes.

Settings only; `octopia pipeline run` and `octopia scenes` do the work. Small enough for two busy cores: the overlay,
the rates and the model are the paper's, with fewer clients and notifications.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.options import ConfOption, MasterOption
from octopia.cli.pipeline import run_and_show

if TYPE_CHECKING:
    from octopia.pipeline import PipelineSpec

DEFAULT_OUT = "out/demo"
PUBLISHERS, SUBSCRIBERS = 50, 500
NOTIFICATIONS, BURST_NOTIFICATIONS = 20, 2_000
SYMBOLS, DAYS = 100, 250
SYSTEMS = ("snr", "idr", "tid", "fdr")
SCENES_PAGE = "scenes.html"
# The run takes less than a minute, so extra JIT compilation and adaptive query plans would not pay off.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
}


def demo(
    folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder for tables and the report; created if missing.")
    ] = DEFAULT_OUT,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """Run everything at small scale: quotes, a workload, SNR, IDR, TID and FDR on the paper's overlay, audit, report.

    One of the publishers sends far too fast. Takes less than a minute; a second run reuses the results.
    """
    from octopia.cli.scenes import replay_scenes
    from octopia.pipeline import SparkSettings, parse_conf

    spec = demo_spec()
    settings = SparkSettings(master=master, conf=QUICK | parse_conf(conf or []))
    if "://" in folder:
        sys.exit(run_and_show(folder, spec, settings, None))
    links = {SCENES_PAGE: "Scenes, drawn message by message: which way each copy takes, and why"}
    # Drawing takes seconds of one core, while the pipeline waits for Java to start.
    with ThreadPoolExecutor(1, thread_name_prefix="octopia-scenes") as executor:
        drawn = executor.submit(replay_scenes, Path(folder) / "report" / SCENES_PAGE, quiet=True)
        code = run_and_show(folder, spec, settings, None, links=links)
        drawn.result()
    sys.exit(code)


def demo_spec(systems: tuple[str, ...] = SYSTEMS) -> "PipelineSpec":
    """The settings of the pipeline for these systems."""
    from octopia.pipeline import PipelineSpec, QuotesSpec, pipeline_settings

    played = pipeline_settings(
        publishers=PUBLISHERS,
        subscribers=SUBSCRIBERS,
        notifications_per_publisher=NOTIFICATIONS,
        burst_notifications=BURST_NOTIFICATIONS,
        systems=systems,
    )
    return PipelineSpec(QuotesSpec(symbols=SYMBOLS, days=DAYS), played, burst=True)
