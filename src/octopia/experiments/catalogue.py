"""The experiments that `octopia simulate` knows: the paper's, in its order, then those about trouble."""

from typing import Final

from octopia.errors import InputError
from octopia.experiments.burst import BURST
from octopia.experiments.crash import CRASH
from octopia.experiments.delivery import DELIVERY
from octopia.experiments.experiment import Experiment
from octopia.experiments.publishers import PUBLISHERS
from octopia.experiments.slow_link import SLOW_LINK
from octopia.experiments.subscribers import SUBSCRIBERS
from octopia.hints import maybe_meant, shortened

EXPERIMENTS: Final[dict[str, Experiment]] = {
    experiment.name: experiment for experiment in (PUBLISHERS, SUBSCRIBERS, DELIVERY, BURST, CRASH, SLOW_LINK)
}


def experiment_named(name: str) -> Experiment:
    """The experiment of this name; `InputError` where there is none."""
    try:
        return EXPERIMENTS[name]
    except KeyError:
        hint = maybe_meant(name, EXPERIMENTS)
        raise InputError(
            f"no experiment is called {shortened(name)!r}{hint}; there are {', '.join(EXPERIMENTS)}"
        ) from None
