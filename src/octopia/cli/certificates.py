"""`octopia certificates FILE [CLIENT...]`: certificates for an overlay file, signed by its own authority."""

from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.terminal import err, out, say


def certificates(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Overlay file, whose tls table names the files.")],
    clients: Annotated[
        list[str] | None, typer.Argument(metavar="[CLIENT]...", help="Clients that need CLIENT.pem and CLIENT.key.")
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=3650, help="Validity in days.")] = 825,
) -> None:
    """Create the certificates and keys named in an overlay file, and an authority to sign them.

    Files are written next to the overlay file. Existing files are kept, so run it again after adding a broker or a
    client. Do not copy authority.key to other machines: brokers do not need it.
    """
    from octopia.net import load_config, make_certificates

    made = make_certificates(load_config(file, secrets=False), clients or [], days)
    for path in made:
        say(out(), str(path))
    if not made:
        say(err(), "octopia: everything was there already")
