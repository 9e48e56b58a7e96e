"""Simulation of an overlay: the brokers' own code under a virtual clock."""

from octopia.sim.checkers import DELIVERY_RULES, Finding, check_run
from octopia.sim.exactly_once import compare as compare_deliveries
from octopia.sim.faults import BrokerFault, Fault, LinkFault, check_faults, draw_faults
from octopia.sim.in_order import late_for_one_subscription
from octopia.sim.model import MODEL_PARTS, MODELS, Model, check_model, links_of, load_model, model_from
from octopia.sim.numbering import first_numbers
from octopia.sim.run import (
    LiveFacts,
    LiveFault,
    LiveProcess,
    Phase,
    Run,
    RunSpec,
    load_run,
    no_garbage_collection,
    save_run,
    simulate,
)
from octopia.sim.terms import terms_of

__all__ = [
    "DELIVERY_RULES",
    "MODELS",
    "MODEL_PARTS",
    "BrokerFault",
    "Fault",
    "Finding",
    "LinkFault",
    "LiveFacts",
    "LiveFault",
    "LiveProcess",
    "Model",
    "Phase",
    "Run",
    "RunSpec",
    "check_faults",
    "check_model",
    "check_run",
    "compare_deliveries",
    "draw_faults",
    "first_numbers",
    "late_for_one_subscription",
    "links_of",
    "load_model",
    "load_run",
    "model_from",
    "no_garbage_collection",
    "save_run",
    "simulate",
    "terms_of",
]
