"""`octopia units FILE`: systemd units that run an overlay across machines.

Rules of this file: one unit per machine of the overlay file, or per broker where no machines are named; it writes files
and starts nothing. Every unit restarts its brokers when they die: neighbours and clients find them again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.console import out, say

if TYPE_CHECKING:
    from octopia.net import ServeConfig

_UNIT = """[Unit]
Description=OctopiA {name}: {what}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command} serve {file} {option}
Restart=always
RestartSec=1
TimeoutStopSec={stop_s}
LimitNOFILE={files}
DynamicUser=yes
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def units(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Overlay file.")],
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write the units here instead of printing them.")
    ] = None,
    installed: Annotated[
        str, typer.Option("--at", metavar="PATH", help="Where the overlay file lies on the machines.")
    ] = "/etc/octopia/overlay.toml",
    command: Annotated[
        str, typer.Option("--command", metavar="PATH", help="The octopia command on the machines.")
    ] = "/usr/local/bin/octopia",
) -> None:
    """Make systemd units from an overlay file: one per machine, or per broker where it names no machines."""
    from octopia.net import load_config

    config = load_config(file, secrets=False)
    for unit, text in unit_files(config, installed, command).items():
        if folder is None:
            say(out(), f"# {unit}\n{text}")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / unit).write_text(text, encoding="utf-8")
            say(out(), str(folder / unit))


def unit_files(config: "ServeConfig", installed: str, command: str) -> dict[str, str]:
    """The text of each unit by file name."""
    if config.placement is not None:
        parts = [(machine, f"--machine {machine}", machine) for machine in config.placement.machines]
    else:
        parts = [(f"{b.region}-{b.cluster}", f"--broker {b.region},{b.cluster}", str(b)) for b in config.scot.brokers]
    return {
        f"octopia-{name}.service": _UNIT.format(
            name=config.name,
            what=what,
            command=command,
            file=installed,
            option=option,
            stop_s=round(config.net_limits.drain_s + 5),
            files=config.net_limits.connections_max + 1024,
        )
        for name, option, what in parts
    }
