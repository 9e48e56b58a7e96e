"""The `octopia` command: one file per sub-command.

This package is the only place that prints. Results go to standard output, everything else to standard error. Exit
codes: 0 success, 1 failure, 2 invalid usage or a bad file, 130 interrupted. An error is one line; a stack trace means a
bug in OctopiA. Modules import little at the top, so that `--help` stays quick.
"""

import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Entry point of the command."""
    # Loaded here, so that Ctrl-C ends the command quietly even while Python is still loading it.
    try:
        from octopia.cli.entry import run

        code = run()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


__all__ = ["main"]
