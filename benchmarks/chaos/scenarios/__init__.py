"""The catalogue: every fault and attack of the trial, in the order in which they are run."""

from benchmarks.chaos.scenarios import detours, doors, fairness, links, names, policies, publishers, restarts, rights

SCENARIOS = {
    scenario.name: scenario
    for part in (publishers, links, detours, restarts, policies, names, rights, fairness, doors)
    for scenario in part.SCENARIOS
}

__all__ = ["SCENARIOS"]
