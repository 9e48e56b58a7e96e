"""Planning: find a better overlay for observed traffic, and prove it by replay.

This package depends neither on Spark nor on the internals of the simulator. Traffic comes as counts (`traffic`), the
cost of a notification has a closed form (`cost`), a search finds candidates (`clients`, `shapes`, `candidates`),
filters are compared (`filters`), and a proposal is proved by replaying the workload (`replay`). `octopia.pipeline`
makes the counts from traces and runs candidates and replays as Spark tasks.
"""

from octopia.planning.candidates import Candidate, CandidateOrder, work_out
from octopia.planning.cost import cost_of, paths_of
from octopia.planning.filters import Pair, merged, numbers_by_client, relations_of
from octopia.planning.plan import Costs, Plan, Tried, rejected_of
from octopia.planning.proposal import Proposal, overlay_toml, propose, proposed_workload, slots_of, split, zones_of
from octopia.planning.replay import Measured, replay
from octopia.planning.report import headline, percent, plan_page
from octopia.planning.shapes import divisors, link_count
from octopia.planning.traffic import FLOWS_MAX, Flow, Traffic, make_traffic

__all__ = [
    "FLOWS_MAX",
    "Candidate",
    "CandidateOrder",
    "Costs",
    "Flow",
    "Measured",
    "Pair",
    "Plan",
    "Proposal",
    "Traffic",
    "Tried",
    "cost_of",
    "divisors",
    "headline",
    "link_count",
    "make_traffic",
    "merged",
    "numbers_by_client",
    "overlay_toml",
    "paths_of",
    "percent",
    "plan_page",
    "propose",
    "proposed_workload",
    "rejected_of",
    "relations_of",
    "replay",
    "slots_of",
    "split",
    "work_out",
    "zones_of",
]
