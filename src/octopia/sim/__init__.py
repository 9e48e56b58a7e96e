"""Simulation of an overlay: the brokers' own code under a virtual clock."""

from octopia.sim.checkers import Finding, check_run
from octopia.sim.exactly_once import compare as compare_deliveries
from octopia.sim.faults import BrokerFault, Fault, LinkFault, draw_faults
from octopia.sim.model import MODELS, Model, load_model
from octopia.sim.requests import Request
from octopia.sim.run import Phase, Run, RunSpec, load_run, simulate
from octopia.sim.simulation import Simulation

__all__ = [
    "MODELS",
    "BrokerFault",
    "Fault",
    "Finding",
    "LinkFault",
    "Model",
    "Phase",
    "Request",
    "Run",
    "RunSpec",
    "Simulation",
    "check_run",
    "compare_deliveries",
    "draw_faults",
    "load_model",
    "load_run",
    "simulate",
]
