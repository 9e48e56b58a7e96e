"""The command tree: names, order and one-line help of the sub-commands.

A command's module is loaded only to run the command or show its help, so `octopia --help` and shell completion stay
quick. The one-line help texts are here and not in the modules for the same reason.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from octopia.version import __version__

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Entry(NamedTuple):
    panel: str
    name: str
    help: str
    extra: str = ""  # required beyond a bare installation


_START, _LIVE, _LAB, _DATA = "Start here", "A live overlay", "Experiments and scenarios", "Data on Spark"
# Each command is a function of the same name in `octopia.cli.<name>`; the module may define an EPILOG.
COMMANDS = (
    _Entry(_START, "demo", "Run the whole job at small scale and write a report.", extra="demo"),
    _Entry(_START, "scenes", "Replay the paper's scenes and ours, and write a page with the drawings.", extra="sim"),
    _Entry(_START, "topology", "Show an overlay: facts, shape, trees, sites and placement."),
    _Entry(_LIVE, "serve", "Run the brokers of an overlay, all of them or some."),
    _Entry(_LIVE, "console", "Serve a web page that shows a running overlay, or a demo."),
    _Entry(_LIVE, "pub", "Publish lines of JSON as notifications."),
    _Entry(_LIVE, "sub", "Subscribe and print matching notifications as lines of JSON."),
    _Entry(_LIVE, "adv", "Advertise, and keep the advertisements in force until interrupted."),
    _Entry(_LIVE, "status", "Show brokers, clients, links and queues of a running overlay."),
    _Entry(_LIVE, "top", "Watch brokers, rates, queues and overload of a running overlay."),
    _Entry(_LIVE, "trace", "Send a probe, which is not delivered, and show the path of every copy."),
    _Entry(_LIVE, "why", "Say why a client gets a notification, or what stops it."),
    _Entry(_LIVE, "bench", "Measure rates and latencies of a running overlay."),
    _Entry(_LIVE, "certificates", "Make the certificates that an overlay file names.", extra="certificates"),
    _Entry(_LIVE, "units", "Write systemd units for the brokers of an overlay file."),
    _Entry(_LIVE, "warmup", "Compile the matching kernels and archive Spark's classes ahead of time."),
    _Entry(_LAB, "replay", "Replay a scenario step by step and tell every message."),
    _Entry(_LAB, "explain", "Say why each client of a scenario did or did not get a notification."),
    _Entry(_LAB, "simulate", "Run an experiment and compare the systems side by side.", extra="sim"),
    _Entry(_LAB, "validate", "Compare the simulator with live brokers and calibrate its model.", extra="sim"),
    _Entry(_LAB, "join", "Run brokers for an experiment on live brokers.", extra="sim"),
    _Entry(_DATA, "pipeline", "Run the data pipeline, or one stage of it.", extra="spark"),
    _Entry(_DATA, "plan", "Find a better overlay for a trace and prove it by replay.", extra="demo"),
    _Entry(_DATA, "watch", "Watch what brokers record: lost, repeated, late, slow links.", extra="spark"),
    _Entry(_DATA, "reproduce", "Run the paper's whole evaluation on Spark and write one page.", extra="spark"),
)


def _flags_without_type(params: list[Any]) -> list[Any]:
    # A flag takes no value, so its help shows no type.
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _load_help_formatter() -> None:
    """Load Typer's formatter without two of its imports, which it does not use for our help and errors.

    Rich's Markdown and tracebacks would take a quarter of the CPU time of `octopia --help`.
    """
    if "typer.rich_utils" in sys.modules:
        return
    unused = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
    stand_ins = {name: ModuleType(name) for name in unused if name not in sys.modules}
    for name, module in stand_ins.items():
        setattr(module, unused[name], type(unused[name], (), {}))
    sys.modules |= stand_ins
    try:
        import_module("typer.rich_utils")
    finally:
        for name in stand_ins:
            del sys.modules[name]


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_help_formatter()
        super().format_help(ctx, formatter)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_help_formatter()
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Replace the placeholder from the list of commands with the command itself."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else loaded(name), rest


def loaded(name: str) -> Any:
    """Load the command with this name, including its options."""
    module = import_module(f"octopia.cli.{name}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=_SETTINGS)
    alone.command(name=name, cls=_Command, epilog=getattr(module, "EPILOG", None))(getattr(module, name))
    return get_command(alone)


app = typer.Typer(
    name="octopia",
    cls=_Group,
    help="Content-based publish/subscribe over a structured cyclic overlay of brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
    epilog="Start with: octopia demo. Completion: run octopia --install-completion in your shell (bash, zsh, fish).",
)


def _placeholder() -> None:
    raise AssertionError("a placeholder is never run: resolve_command replaces it")


for _entry in COMMANDS:
    app.command(name=_entry.name, cls=_Command, short_help=_entry.help, rich_help_panel=_entry.panel)(_placeholder)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"octopia {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Content-based publish/subscribe over a structured cyclic overlay of brokers."""
