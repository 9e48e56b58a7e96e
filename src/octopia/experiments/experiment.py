"""What an experiment is: its settings, what it varies, what is measured and what is shown.

Rules of this file: values only; the experiments themselves stand in a file each and are gathered in `catalogue.py`.
`scaled` names the settings that `--scale` multiplies: where registering is measured, how many register; where
notifications are, how many are published, so that the run is as loaded as the full one and shorter. Rates, capacities,
τ, t_w and the clients that make the load are never scaled.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from octopia.experiments.settings import Settings

Kind: TypeAlias = Literal["line", "series", "ranked"]


class Shown(Struct, frozen=True, kw_only=True):
    """One plot, and for a line one group of rows in the tables: a part of a metric.

    `line`: the metric over the points, a line per system with its 95 % interval. `series`: the metric over time, one
    panel per point, of the first seed. `ranked`: for experiments with very many points, the points of each system from
    the worst to the best, and in tables the worst alone.
    """

    metric: str
    part: str
    title: str
    kind: Kind = "line"
    paper: str = ""  # which plot of the paper this is
    on_page: bool = False  # its picture is in the documentation, as the paper's plots and series are

    @property
    def name(self) -> str:
        """For file names."""
        return f"{self.metric}-{self.part}".strip("-").replace("_", "-")


class Experiment(Struct, frozen=True, kw_only=True):
    """One experiment. `paper`: it is one of the paper's, which `octopia reproduce` runs all of."""

    name: str
    title: str
    question: str
    axis: str
    settings: Settings
    scaled: tuple[str, ...]
    publishes: bool
    has_burst: bool
    metrics: tuple[str, ...]
    shown: tuple[Shown, ...]
    paper: bool = True
