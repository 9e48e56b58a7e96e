"""The command tree: names, order and help of the sub-commands.

Rules of this file: it names and orders, and does nothing itself. A flag's help shows no type, since a flag takes no
value.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from octopia.cli.adv import adv
from octopia.cli.bench import bench
from octopia.cli.demo import demo
from octopia.cli.explain import explain
from octopia.cli.pipeline import EPILOG as PIPELINE_EPILOG
from octopia.cli.pipeline import pipeline
from octopia.cli.pub import pub
from octopia.cli.replay import replay
from octopia.cli.reproduce import reproduce
from octopia.cli.scenes import scenes
from octopia.cli.serve import serve
from octopia.cli.simulate import EPILOG as SIMULATE_EPILOG
from octopia.cli.simulate import simulate
from octopia.cli.status import status
from octopia.cli.sub import sub
from octopia.cli.top import top
from octopia.cli.topology import topology
from octopia.cli.trace import trace
from octopia.cli.units import units
from octopia.cli.warmup import warmup
from octopia.version import __version__


def _flags_without_type(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


app = typer.Typer(
    name="octopia",
    cls=_Group,
    help="Content-based publish/subscribe over a structured cyclic overlay of brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: octopia demo. Completion: run octopia --install-completion in your shell (bash, zsh, fish).",
)
app.command(cls=_Command)(demo)
app.command(cls=_Command)(scenes)
app.command(cls=_Command)(topology)
app.command(cls=_Command)(replay)
app.command(cls=_Command)(explain)
app.command(cls=_Command, epilog=SIMULATE_EPILOG)(simulate)
app.command(cls=_Command, epilog=PIPELINE_EPILOG)(pipeline)
app.command(cls=_Command)(reproduce)
app.command(cls=_Command)(serve)
app.command(cls=_Command)(pub)
app.command(cls=_Command)(sub)
app.command(cls=_Command)(adv)
app.command(cls=_Command)(status)
app.command(cls=_Command)(top)
app.command(cls=_Command)(trace)
app.command(cls=_Command)(bench)
app.command(cls=_Command)(units)
app.command(cls=_Command)(warmup)


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
