"""The experiments of `octopia simulate`: the paper's, in its order, then those with faults and the others."""

from typing import Final

from octopia.errors import InputError
from octopia.experiments.burst import BURST
from octopia.experiments.bursts import BURSTS
from octopia.experiments.churn import CHURN
from octopia.experiments.crash import CRASH
from octopia.experiments.delivery import DELIVERY
from octopia.experiments.delivery_publishers import DELIVERY_PUBLISHERS
from octopia.experiments.experiment import Experiment
from octopia.experiments.failures import FAILURES_EXPERIMENT
from octopia.experiments.priorities import PRIORITIES
from octopia.experiments.publishers import PUBLISHERS
from octopia.experiments.sites import SITES
from octopia.experiments.slow_link import SLOW_LINK
from octopia.experiments.subscribers import SUBSCRIBERS
from octopia.hints import maybe_meant, shortened

EXPERIMENTS: Final[dict[str, Experiment]] = {
    experiment.name: experiment
    for experiment in (
        PUBLISHERS,
        SUBSCRIBERS,
        DELIVERY,
        DELIVERY_PUBLISHERS,
        BURST,
        BURSTS,
        CRASH,
        SLOW_LINK,
        CHURN,
        FAILURES_EXPERIMENT,
        SITES,
        PRIORITIES,
    )
}


def experiment_named(name: str) -> Experiment:
    """The experiment with this name; raises `InputError` if there is none."""
    try:
        return EXPERIMENTS[name]
    except KeyError:
        hint = maybe_meant(name, EXPERIMENTS)
        raise InputError(
            f"no experiment is called {shortened(name)!r}{hint}; choose from {', '.join(EXPERIMENTS)}"
        ) from None
