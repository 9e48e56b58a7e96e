"""What the figures are held against: half of what the trial implementation reached, and the goals of the engine.

Events per second on one core, one by one and in a batch, by workload and number of subscriptions.
"""

TRIAL = {
    ("A", 10_000): (200_000, 2_100_000),
    ("A", 100_000): (150_000, 630_000),
    ("A", 1_000_000): (53_000, 100_000),
    ("B", 10_000): (72_000, 200_000),
    ("B", 100_000): (15_000, 35_000),
    ("B", 1_000_000): (2_400, 6_800),
    ("C", 100_000): (120_000, 440_000),
}
# The best peer of the trial, in a batch, with the versions of its day; today's are measured anew, in the same run.
TRIAL_PEER = {("A", 100_000): 7_100, ("B", 100_000): 240, ("C", 100_000): 92}
PEER_RATIO = 25.0
PEER_SIZE = 100_000
CHANGES_PER_S = 100_000
BYTES_MAX = 200


def half_of_trial(workload: str, subscriptions: int) -> tuple[float, float] | None:
    """The goals one by one and in a batch; None if the trial has no figure."""
    reached = TRIAL.get((workload, subscriptions))
    return None if reached is None else (reached[0] / 2, reached[1] / 2)
