"""Turn a command's outcome into an exit code and, on failure, a line on standard error."""

import os
import sys

from octopia.cli.app import COMMANDS, app
from octopia.cli.terminal import fail, prepare_streams
from octopia.errors import InputError, LanguageError, OctopiaError
from octopia.extras import EXTRA_OF

EXIT_FAILED = 1
EXIT_USAGE = 2


def run() -> int:
    """Run the command given by the arguments and return its exit code."""
    prepare_streams()
    try:
        try:
            app(prog_name="octopia")
        finally:
            # Flush here, where a failure can be reported, and not while Python shuts down.
            sys.stdout.flush()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else EXIT_FAILED
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRA_OF:
            raise
        fail(f"this command needs {module}, which is not installed: pip install 'octopia[{_extra(module)}]'")
        return EXIT_FAILED
    except InputError as error:
        fail(str(error), error.pointer() if isinstance(error, LanguageError) else None)
        return EXIT_USAGE
    except OctopiaError as error:
        fail(str(error))
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader (`| head`) closed the pipe: not an error, and there is no one to tell.
        _drop_output()
        return EXIT_FAILED
    except OSError as error:
        _drop_output()
        fail(f"cannot write: {error.strerror or error}")
        return EXIT_FAILED
    return 0


def _extra(module: str) -> str:
    """The extra that covers all of the command's needs, not just this module, so that one install is enough."""
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    return next((entry.extra for entry in COMMANDS if entry.name == named and entry.extra), EXTRA_OF[module])


def _drop_output() -> None:
    """Discard output that Python still buffers and would try to write again on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
