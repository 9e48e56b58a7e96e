"""Entry point of the `octopia` command: handles Ctrl-C before anything else is loaded.

It is outside the package, because importing a part of the package loads its `__init__` first. While the command loads,
Ctrl-C ends the process at once, without a traceback of the import that it hit. Nothing can be done about the time
before that, while Python itself starts.
"""

import os
import signal


def main() -> None:
    """Load the command, then run it."""
    # A background job of a shell ignores Ctrl-C from the start, and keeps ignoring it.
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    import octopia.cli.entry

    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    octopia.cli.main()
