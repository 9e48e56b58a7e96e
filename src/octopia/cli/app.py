"""The command tree: names, order and help of the sub-commands."""

from typing import Annotated

import typer

from octopia import __version__
from octopia.cli.demo import demo
from octopia.cli.explain import explain
from octopia.cli.replay import replay
from octopia.cli.topology import topology

app = typer.Typer(
    name="octopia",
    help="Content-based publish/subscribe over a structured cyclic overlay of brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: octopia demo. Shell completion: octopia --install-completion.",
)
app.command()(demo)
app.command()(topology)
app.command()(replay)
app.command()(explain)


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
