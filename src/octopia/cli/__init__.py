"""The `octopia` command: one file per sub-command, and this one, which ties them together.

Rules of this package: it is the only place that prints. Results go to standard output, everything else to standard
error. Exit codes: 0 it worked, 1 it failed, 2 what was asked makes no sense (usage, or a file that is wrong). An
error is one line, never a stack trace, unless it is our own fault. Modules here import little at the top, so that
`--help` is quick.
"""

import sys

from octopia.cli.app import app
from octopia.cli.console import fail
from octopia.errors import InputError, LanguageError, OctopiaError

EXIT_FAILED = 1
EXIT_USAGE = 2


def main() -> None:
    """Entry point of the command."""
    try:
        app()
    except InputError as error:
        fail(error.__str__(), error.pointer() if isinstance(error, LanguageError) else None)
        sys.exit(EXIT_USAGE)
    except OctopiaError as error:
        fail(str(error))
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        # the reader (`| head`) has enough; nothing is wrong, and there is nobody to tell
        sys.stderr.close()
        sys.exit(EXIT_FAILED)


__all__ = ["app", "main"]
