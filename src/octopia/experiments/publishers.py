"""Publisher scalability: the cost of advertising as the number of advertisements grows. The paper's Fig. 9.

There are no subscriptions and no publications: only advertising is measured.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

COUNTS = (100, 200, 300, 400, 500)

PUBLISHERS = Experiment(
    name="publishers",
    title="Publisher scalability",
    question="what does an advertisement cost as their number grows?",
    axis="advertisements",
    settings=Settings(vary="publishers", points=COUNTS, subscribers=0),
    scaled=("publishers",),
    publishes=False,
    metrics=("advertisement_delay", "srt_entries", "messages", "messages_caused", "messages_per_request"),
    shown=(
        Shown("advertisement_delay", "mean", "Mean advertisement delay", paper="Fig. 9(a)"),
        Shown("srt_entries", "mean", "Mean SRT entries per broker", paper="Fig. 9(b)"),
        Shown("messages_caused", "advertise", "IMs of advertising", paper="Fig. 9(c)"),
        Shown("messages_per_request", "advertise", "IMs per advertisement"),
    ),
)
