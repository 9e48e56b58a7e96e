"""`octopia units FILE`: systemd units that run an overlay across machines.

One unit per machine of the overlay file, or per broker if it names no machines. The command writes files and starts
nothing. Every unit restarts its brokers when they die or hang; neighbours and clients reconnect. A unit's resource
limits cover all its brokers together, since they share a process; its permissions cover only the needs of a broker.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.terminal import out, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from octopia.net import ServeConfig
    from octopia.topology import BrokerId

_UNIT = """[Unit]
Description=OctopiA {name}: {what}
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={command} serve {file} {option}
Restart=always
RestartSec=1
WatchdogSec={watchdog_s}
TimeoutStopSec={stop_s}
LimitNOFILE={files}
MemoryMax={memory}
DynamicUser=yes
StateDirectory=octopia
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
AmbientCapabilities={capabilities}
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
ProtectSystem=strict
ProtectHome=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
PrivateDevices=yes
PrivateTmp=yes
UMask=0077
CacheDirectory=octopia-{unit}
Environment=NUMBA_CACHE_DIR=%C/octopia-{unit}

[Install]
WantedBy=multi-user.target
"""


# Besides the connections of clients and neighbours: HTTP, libraries, and connections being closed.
_FILES_MARGIN = 1024
# Room for full queues; without full queues a broker uses a tenth of it.
MEMORY_PER_BROKER_GB = 2
# A process without a sign of life for this long is restarted. Even a busy loop gives one within a second.
WATCHDOG_S = 30
PORTS_FREE_FROM = 1024


def units(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Overlay file.")],
    folder: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write the units to this folder instead of printing them."),
    ] = None,
    installed: Annotated[
        str, typer.Option("--at", metavar="PATH", help="Path of the overlay file on the machines.")
    ] = "/etc/octopia/overlay.toml",
    command: Annotated[
        str, typer.Option("--command", metavar="PATH", help="Path of the octopia command on the machines.")
    ] = "/usr/local/bin/octopia",
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="MemoryMax of each unit.",
            show_default=f"{MEMORY_PER_BROKER_GB}G per broker",
        ),
    ] = None,
) -> None:
    """Write systemd units for an overlay file: one per machine, or one per broker if it names no machines."""
    from octopia.net import load_config

    config = load_config(file, secrets=False)
    for unit, text in unit_files(config, installed, command, memory).items():
        if folder is None:
            say(out(), f"# {unit}\n{text}")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / unit).write_text(text, encoding="utf-8")
            say(out(), str(folder / unit))


def unit_files(config: "ServeConfig", installed: str, command: str, memory: str | None = None) -> dict[str, str]:
    """The text of each unit by file name."""
    if config.placement is not None:
        parts = [
            (machine, f"--machine {machine}", machine, there) for machine, there in config.placement.brokers.items()
        ]
    else:
        parts = [
            (f"{b.region}-{b.cluster}", f"--broker {b.region},{b.cluster}", str(b), (b,)) for b in config.scot.brokers
        ]
    return {
        f"octopia-{name}.service": _UNIT.format(
            unit=name,
            name=config.name,
            what=what,
            command=command,
            file=installed,
            option=option,
            watchdog_s=WATCHDOG_S,
            stop_s=round(config.net_limits.drain_s + 5),
            files=sum(config.net_limits.files(len(config.scot.neighbours(b))) for b in brokers) + _FILES_MARGIN,
            memory=memory or f"{MEMORY_PER_BROKER_GB * len(brokers)}G",
            capabilities=_capabilities(config, brokers),
        )
        for name, option, what, brokers in parts
    }


def _capabilities(config: "ServeConfig", brokers: "Sequence[BrokerId]") -> str:
    """The capabilities of a unit: none, except the one for a port that needs it."""
    listening = [
        at for broker in brokers for at in (config.addresses[broker], config.http.get(broker)) if at is not None
    ]
    return "CAP_NET_BIND_SERVICE" if any(0 < at.port < PORTS_FREE_FROM for at in listening) else ""
