"""`octopia plan` on the workload of the demo, and on one made from real quotes if there are any: its cost, and the
replays of its proposals.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from benchmarks.pipeline.measure import timed
from octopia.cli import demo
from octopia.pipeline import PlanOptions, SparkSettings, make_plan, open_session, run_pipeline
from octopia.pipeline.spec import PipelineSpec, QuotesSpec

SYSTEMS: Final = ("snr", "fdr")
MADE_BY: Final = ["quotes", "notifications", "workload", "simulate"]


def measure_plans(quotes: str = "") -> list[dict[str, Any]]:
    """A plan for each workload and routing, and every proposal in it against the current overlay."""
    spec = demo.demo_spec(SYSTEMS)
    specs = {"demo": spec}
    if quotes:
        # Filters by symbol would not do: clients are drawn from the seed, so that other quotes with as many symbols
        # only rename the symbols, and every figure is the demo's. Ranges depend on the values.
        ranges = msgspec.structs.replace(spec.settings, shape="ranges")
        specs["real quotes, ranges"] = replace(spec, quotes=QuotesSpec(paths=(quotes,)), settings=ranges)
    with open_session(SparkSettings(conf=demo.QUICK)):
        return [row for name, spec in specs.items() for row in _measure(name, spec)]


def _measure(workload: str, spec: PipelineSpec) -> list[dict[str, Any]]:
    found = []
    with TemporaryDirectory(prefix="octopia-bench-") as name:
        run_pipeline(name, spec, stages=MADE_BY)
        for system in SYSTEMS:
            options = PlanOptions(system=system)
            plan, took = timed(lambda options=options: make_plan(name, Path(name) / f"plan-{options.system}", options))  # type: ignore[misc]
            for each in plan.measured[1:]:
                found.append(
                    {
                        "workload": workload,
                        "system": system,
                        "proposal": each.name,
                        "recommended": each.name == plan.recommended,
                        "rejected": plan.rejected.get(each.name, ""),
                        "messages": plan.change(each.name, "copies"),
                        "delay": plan.change(each.name, "delay_mean_s"),
                        "plan_wall_s": took.wall_s,
                        "plan_cpu_s": took.cpu_s,
                    }
                )
    return found
