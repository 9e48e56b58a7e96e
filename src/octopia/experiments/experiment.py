"""The definition of an experiment: its settings, the varied setting, metrics and plots.

Values only; each experiment has its own file, and `catalogue.py` collects them. `scaled` names the settings that
`--scale` multiplies: the number of registrations if registering is measured; the number of notifications if publishing
is, so that the run is as loaded as the full one and shorter. Rates, capacities, τ, t_w and the clients that make the
load are never scaled.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from octopia.experiments.settings import Settings

Kind: TypeAlias = Literal["line", "series", "ranked", "lead"]

# The system that others are compared with where a lead is shown.
LEAD_OVER: Final = "snr"


class Shown(Struct, frozen=True):
    """One plot, and for a line one group of rows in the tables: a part of a metric.

    `line`: the metric over the points, a line per system with its 95 % interval. `series`: the metric over time, one
    panel per point, of the first seed. `ranked`: for experiments with very many points, the points of each system from
    the worst to the best, and in tables only the worst. `lead`: by how many per cent a system differs from SNR at each
    point, computed seed by seed (both saw the same workload) and then averaged, with its interval.
    """

    metric: str
    part: str
    title: str
    kind: Kind = "line"
    paper: str = ""  # the plot of the paper that this reproduces
    on_page: bool = False  # its picture is in the documentation, as the paper's plots and series are
    log: bool = False  # for a series: logarithmic scale

    @property
    def name(self) -> str:
        """For file names."""
        name = f"{self.metric}-{self.part}".strip("-").replace("_", "-")
        return f"{name}-lead" if self.kind == "lead" else name


class Experiment(Struct, frozen=True, kw_only=True):
    """One experiment. `paper`: it is one of the paper's, all of which `octopia reproduce` runs.

    `questions` has the question to show, by setting, if that setting is varied instead of the experiment's own.
    """

    name: str
    title: str
    question: str
    axis: str
    settings: Settings
    metrics: tuple[str, ...]
    shown: tuple[Shown, ...]
    scaled: tuple[str, ...] = ("notifications_per_publisher",)
    publishes: bool = True
    has_burst: bool = False
    paper: bool = True
    questions: Mapping[str, str] = {}

    def question_about(self, vary: str) -> str:
        """The question if this setting is varied."""
        if vary == self.settings.vary:
            return self.question
        return self.questions.get(vary, f"how does it change with {vary}?")
