"""systemd units say what runs where."""

import configparser
from pathlib import Path

from octopia.cli.units import unit_files
from octopia.net import load_config

OVERLAY = '[overlay]\nname = "x"\ntree = "path:2"\nclusters = 2\n'


def exec_start(text: str) -> str:
    parsed = configparser.ConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    return parsed["Service"]["ExecStart"]


def test_one_unit_per_machine_or_broker(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(OVERLAY, encoding="utf-8")
    made = unit_files(load_config(file), "/etc/o.toml", "/bin/octopia")
    assert {name: exec_start(text) for name, text in made.items()} == {
        f"octopia-{r}-{c}.service": f"/bin/octopia serve /etc/o.toml --broker {r},{c}" for c in (0, 1) for r in "ab"
    }
    file.write_text(OVERLAY + '[placement]\nmachines = ["m1", "m2"]\n', encoding="utf-8")
    made = unit_files(load_config(file), "/etc/o.toml", "/bin/octopia")
    assert {name: exec_start(text) for name, text in made.items()} == {
        f"octopia-{m}.service": f"/bin/octopia serve /etc/o.toml --machine {m}" for m in ("m1", "m2")
    }
