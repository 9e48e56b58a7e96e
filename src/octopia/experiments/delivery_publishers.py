"""Notification delivery with a growing number of publishers: 100 to 500 of them, with 2,000 subscribers.

These are the paper's plots of publisher scalability for notifications. Settings, metrics and plots are those of
`delivery`, which varies the subscribers. More publishers send more, so the load grows with them; a subscription still
matches 2 % of the notifications, from proportionally more publishers.
"""

from msgspec import structs

from octopia.experiments.delivery import AS_PUBLISHERS_GROW, DELIVERY
from octopia.experiments.publishers import COUNTS

DELIVERY_PUBLISHERS = structs.replace(
    DELIVERY,
    name="delivery-publishers",
    title="Notification delivery, more publishers",
    question=AS_PUBLISHERS_GROW,
    axis="publishers",
    settings=structs.replace(DELIVERY.settings, vary="publishers", points=COUNTS),
    questions={"subscribers": DELIVERY.question},
)
