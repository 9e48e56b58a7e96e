"""`octopia demo`: the main job at small scale, from quotes to a report, and the paper's scenes beside it.

Rules of this file: settings only; the work is that of `octopia pipeline run` and `octopia scenes`. Small enough for two
busy cores: the overlay, the rates and the model are the paper's, and there are fewer clients and notifications.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.pipeline import ConfOption, MasterOption, run_and_show

DEFAULT_OUT = "out/demo"
PUBLISHERS, SUBSCRIBERS = 50, 500
NOTIFICATIONS, BURST_NOTIFICATIONS = 20, 2_000
SYMBOLS, DAYS = 100, 250
SYSTEMS = ("snr", "idr", "tid", "fdr")
SCENES_PAGE = "scenes.html"
# A run of a minute: a JVM that compiles little, and plans that are not worth changing on the way.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
}


def demo(
    folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Where tables and report go; made if it is not there.")
    ] = DEFAULT_OUT,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """The whole job, small: quotes, a workload, SNR, IDR, TID and FDR on the paper's overlay, an audit, and a report.

    A publisher that is far too fast is among the others. Takes a minute or two; run again, it finds all done.
    """
    from octopia.cli.scenes import replay_scenes
    from octopia.pipeline import PipelineSpec, QuotesSpec, SimulateSpec, SparkSettings, parse_conf
    from octopia.workload import BurstSpec, WorkloadSpec

    spec = PipelineSpec(
        QuotesSpec(symbols=SYMBOLS, days=DAYS),
        WorkloadSpec(PUBLISHERS, SUBSCRIBERS, notifications_per_publisher=NOTIFICATIONS),
        BurstSpec(notifications=BURST_NOTIFICATIONS),
        simulate=SimulateSpec(SYSTEMS),
    )
    settings = SparkSettings(master=master, conf=QUICK | parse_conf(conf or []))
    links = {}
    if "://" not in folder:
        replay_scenes(Path(folder) / "report" / SCENES_PAGE)
        links = {SCENES_PAGE: "Scenes, drawn message by message: which way each copy takes, and why"}
    sys.exit(run_and_show(folder, spec, settings, None, links=links))
