"""The model files on the simulator's page: each is read, fits an overlay, and every judge is content with its run."""

from pathlib import Path

import pytest

from octopia.sim import RunSpec, check_run, load_model, simulate
from octopia.topology import Scot, parse_tree
from tests.docs.test_docs import FENCE
from tests.docs.test_live_pages import page_text
from tests.sim.worlds import drawn

EXAMPLES = [body for kind, body in FENCE.findall(page_text("reference/simulator.md")) if kind == "toml"]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_a_model_of_the_page(tmp_path: Path, number: int) -> None:
    file = tmp_path / "model.toml"
    file.write_text(EXAMPLES[number], encoding="utf-8")
    overlay = Scot(parse_tree("path:3"), 3)
    world = drawn(overlay, number, publishers=3, subscribers=10, notifications=100, span_ns=100_000_000)
    simulate(world, overlay, RunSpec(routing="idr", model=load_model(str(file))), tmp_path / "run")
    assert [finding.rule for finding in check_run(world, overlay, tmp_path / "run") if not finding.passed] == []
