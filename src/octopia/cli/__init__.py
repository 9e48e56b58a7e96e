"""The `octopia` command: one file per sub-command, and this one, which ties them together.

Rules of this package: it is the only place that prints. Results go to standard output, everything else to standard
error. Exit codes: 0 it worked, 1 it failed, 2 what was asked makes no sense (usage, or a file that is wrong), 130 it
was interrupted. An error is one line, never a stack trace, unless it is our own fault. Modules here import little at
the top, so that `--help` is quick.
"""

import os
import sys

from octopia.cli.app import app
from octopia.cli.console import fail, prepare_streams
from octopia.errors import InputError, LanguageError, OctopiaError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main() -> None:
    """Entry point of the command."""
    prepare_streams()
    sys.exit(_run())


def _run() -> int:
    try:
        try:
            app(prog_name="octopia")
        finally:
            # What is still buffered fails here, where it can be told, and not while Python shuts down.
            sys.stdout.flush()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else EXIT_FAILED
    except InputError as error:
        fail(str(error), error.pointer() if isinstance(error, LanguageError) else None)
        return EXIT_USAGE
    except OctopiaError as error:
        fail(str(error))
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader (`| head`) has enough: nothing is wrong, and there is nobody to tell.
        _drop_output()
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        _drop_output()
        fail(f"cannot write: {error.strerror or error}")
        return EXIT_FAILED
    return 0


def _drop_output() -> None:
    """Send what Python still holds, and will try to write once more on its way out, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


__all__ = ["app", "main"]
