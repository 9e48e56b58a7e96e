"""The simulator compared with live brokers: one small validation, from the command to the page."""

import json
from pathlib import Path

from octopia.experiments import VALIDATION, VALIDATION_HEADS, Validation
from octopia.experiments.validation import Compared, Seen
from octopia.experiments.validation_report import rows, unequal_words
from octopia.sim import LiveFacts, load_model
from tests.commands import run


def test_messages_are_equal_and_the_page_says_what_was_run(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    page = docs / "validation.md"
    page.write_text("before\n<!-- validation: begin -->\nold\n<!-- validation: end -->\nafter\n", encoding="utf-8")
    command = "validate --overlay path:2 --clusters 2 --systems snr --publishers 3 --subscribers 8 --notifications 30"
    places = ("--out", tmp_path / "out", "--calibrate", tmp_path / "ours.toml", "--write-docs", docs)
    done = run(*command.split(), "--rates", "6000", *places)
    assert done.returncode == 0, done.stderr
    assert "Numbers of messages are equal, kind by kind, in all runs." in done.stdout
    said = json.loads((tmp_path / "out" / "validation.json").read_text())
    (each,) = said["compared"]
    live, model, calibrated = (each["sides"][side] for side in ("live", "model", "calibrated"))
    assert live["messages"] == model["messages"] == calibrated["messages"]
    assert live["messages"]["notify"] > 0
    assert live["deliveries"] == model["deliveries"] > 0
    assert load_model(str(tmp_path / "ours.toml")) == load_model(str(tmp_path / "out" / "calibrated.toml"))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- validation: begin -->\n`octopia validate --overlay path:2 --clusters 2")
    assert text.endswith("<!-- validation: end -->\nafter\n")
    assert "![Delays of live brokers and simulator](images/validation-delay-snr.svg)" in text
    assert {file.name for file in (docs / "images").iterdir()} == {
        "validation-delay-snr.svg",
        "validation-queue-snr.svg",
    }


def seen(notify: int) -> Seen:
    return Seen({"notify": notify, "subscribe": 3}, 10, 0.002, 0.001, 0.004, 0.5, 2.0, 3)


def test_what_differs_is_said_kind_by_kind() -> None:
    facts = LiveFacts((), 0, 0, 0, 0, 0, 0, 0, 0)
    compared = Compared("idr", 300, {"live": seen(7), "model": seen(5), "calibrated": seen(7)}, facts, {})
    model = load_model("live")
    validation = Validation(VALIDATION.settings, model, model, (compared,))
    assert compared.unequal("model") == {"notify": (7, 5)}
    assert compared.unequal("calibrated") == {}
    assert unequal_words(validation) == ["idr at 300 a minute: 7 notify live, 5 simulated"]
    table = rows(validation)
    assert {len(row) for row in table} == {len(VALIDATION_HEADS)}
    assert table[0] == ["idr", "300", "messages", "10", "8", "-20 %", "10", "equal"]
    assert table[2] == ["", "", "delay, mean", "2 ms", "2 ms", "equal", "2 ms", "equal"]
