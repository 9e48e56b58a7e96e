"""`octopia join HOST:PORT`: run brokers for an experiment on live brokers.

It prints nothing; the experiment reports progress. The experiment's secret comes from the environment or from standard
input, never from the command line, where everyone on the machine could read it.
"""

import os
import sys
from typing import Annotated

import typer


def join(
    experiment: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the experiment.")],
    machine: Annotated[
        str, typer.Option("--machine", "-m", metavar="NAME", help="Name of this machine in the overlay file.")
    ] = "here",
) -> None:
    """Run brokers for an experiment: octopia simulate NAME --host live prints the command for each machine.

    The experiment decides which brokers to run and when to stop. Its secret is read from OCTOPIA_EXPERIMENT or from
    standard input.
    """
    from octopia.net import Address
    from octopia.testbed import VARIABLE
    from octopia.testbed import join as run

    secret = os.environ.get(VARIABLE) or sys.stdin.readline().strip()
    run(Address.parse(experiment), secret, machine)
