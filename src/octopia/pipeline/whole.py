"""The whole pipeline: its stages, and one call that runs them.

The order of `STAGES` is the order of work; nothing else knows all of them. A session is started
only if a stage has work to do.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from typing import Final

from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.pipeline.session import Session, open_session
from octopia.pipeline.settings import SparkSettings
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stage_audit import AUDIT
from octopia.pipeline.stage_figures import FIGURES, export_report
from octopia.pipeline.stage_metrics import METRICS_STAGE
from octopia.pipeline.stage_notifications import NOTIFICATIONS
from octopia.pipeline.stage_quotes import QUOTES
from octopia.pipeline.stage_run import SIMULATE
from octopia.pipeline.stage_truth import TRUTH
from octopia.pipeline.stage_workload import WORKLOAD
from octopia.pipeline.stages import Event, Runner, Stage
from octopia.pipeline.storage import open_store

STAGES: Final[tuple[Stage[PipelineSpec], ...]] = (
    QUOTES,
    NOTIFICATIONS,
    WORKLOAD,
    TRUTH,
    SIMULATE,
    AUDIT,
    METRICS_STAGE,
    FIGURES,
)


class LazySession:
    """A session that is started on first use and ends with the `with` block."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._session: Session | None = None

    def __enter__(self) -> "LazySession":
        return self

    def __exit__(self, *raised: object) -> None:
        self._session = None
        self._stack.close()

    def __call__(self) -> Session:
        if self._session is None:
            self._session = self._stack.enter_context(open_session(self._settings, classic="the pipeline"))
        return self._session


def run_pipeline(
    out: str | PathLike[str],
    spec: PipelineSpec | None = None,
    *,
    stages: Sequence[str] | None = None,
    settings: SparkSettings | None = None,
    force: bool = False,
    links: Mapping[str, str] | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> list[Event]:
    """Run stages (by default all) in `out`, each only if something it depends on has changed.

    `links` are pages beside the report that it should link to: file and title.
    """
    known = [stage.name for stage in STAGES]
    for name in stages or ():
        if name not in known:
            raise InputError(f"no stage {name!r}: there are {', '.join(known)}{maybe_meant(name, known)}")
    with LazySession(settings or SparkSettings()) as sessions:
        store = open_store(out, lambda: sessions().spark)
        events = Runner(store, spec or PipelineSpec(), sessions, STAGES, on_event).run(stages, force=force)
        if FIGURES.name in (stages or known):
            export_report(store, links)
        return events
