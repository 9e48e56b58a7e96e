"""`octopia plan` on the workload of the demo: its cost, and the replays of its proposals."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.pipeline.measure import timed
from octopia.cli import demo
from octopia.pipeline import PlanOptions, SparkSettings, make_plan, open_session, run_pipeline

SYSTEMS: Final = ("snr", "fdr")


def measure_plans() -> list[dict[str, Any]]:
    """A plan for each routing, and every proposal in it against the current overlay."""
    found = []
    with TemporaryDirectory(prefix="octopia-bench-") as name, open_session(SparkSettings(conf=demo.QUICK)):
        run_pipeline(name, demo.demo_spec(SYSTEMS), stages=["quotes", "notifications", "workload", "simulate"])
        for system in SYSTEMS:
            options = PlanOptions(system=system)
            plan, took = timed(lambda options=options: make_plan(name, Path(name) / f"plan-{options.system}", options))  # type: ignore[misc]
            for each in plan.measured[1:]:
                found.append(
                    {
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
