"""Spark errors in the user's terms: the only place that interprets errors of Java and py4j.

An error that leaves the pipeline is one line, with the place and the fix; Java's stack trace stays in the session's
log. A user's mistake is an `InputError`, a failure of the machine or the cluster a `PipelineError`. An unforeseen error
keeps Spark's own first line rather than a guess.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import octopia.errors
from octopia.errors import InputError, OctopiaError, PipelineError
from octopia.hints import maybe_meant, one_line

_LINE_CHARS_MAX: Final = 400


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Convert every Spark error inside to one of ours that starts with `what`."""
    try:
        yield
    except (OctopiaError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except Exception as error:  # noqa: BLE001  py4j raises what it likes; what is not Spark's goes on as it is
        raise translate(error, what) from None


def translate(error: Exception, what: str) -> OctopiaError:
    """Convert an error of Spark to one of ours; any other error is raised unchanged."""
    if isinstance(error, OctopiaError):
        return error
    if type(error).__module__.split(".")[0] not in ("pyspark", "py4j") and not isinstance(error, OSError | EOFError):
        raise error
    kind, problem = _from_worker(error) or _from_condition(error) or _from_text(error) or _unforeseen(error)
    return kind(f"{what}: {_shown(problem)}")


def jvm_trouble(what: str, last_words: str) -> OctopiaError:
    """Why a JVM did not start, from its output."""
    found = _in_table(last_words, _JVM_START)
    if found is not None:
        return found[0](f"{what}: {found[1]}")
    lines = [line for line in last_words.splitlines() if line.strip() and not line.startswith(("\t", "WARNING"))]
    return PipelineError(f"{what}: {_shown(lines[-1] if lines else 'it printed nothing')}")


# -- errors of our own functions in a Python worker

_RAISED: Final = re.compile(r"^(?P<name>[A-Za-z_][\w.]*): (?P<message>.+)\Z", re.MULTILINE | re.DOTALL)
_Found = tuple[type[OctopiaError], str]


def _from_worker(error: Any) -> _Found | None:
    """The last error of a Python traceback that a worker sent."""
    trace = _parameters(error).get("traceback") or str(error)
    if "Traceback (most recent call last)" not in trace:
        return None
    last = trace.rpartition("Traceback (most recent call last)")[2].partition("\n\tat ")[0].strip()
    lines = last.splitlines()
    # the line of the error itself is the first after the frames that is not indented
    start = next((i for i, line in enumerate(lines[1:], 1) if not line.startswith(" ")), len(lines) - 1)
    raised = _RAISED.match("\n".join(lines[start:]))
    if raised is None:
        return PipelineError, f"a task failed: {lines[-1]}"
    name, message = raised["name"], raised["message"]
    if name.startswith("octopia."):
        ours = getattr(octopia.errors, name.rpartition(".")[2], PipelineError)
        return (InputError if issubclass(ours, InputError) else PipelineError), message
    if name == "ModuleNotFoundError":
        return PipelineError, f"{message} in the workers' Python: install octopia[spark] there, or set PYSPARK_PYTHON"
    if name == "MemoryError":
        return PipelineError, "a Python worker ran out of memory: use fewer cores at once, e.g. --master local[1]"
    return PipelineError, f"a task failed: {name}: {message}"


# -- errors that Spark names itself


def _from_condition(error: Any) -> _Found | None:
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    given = _parameters(error)
    match (condition or "").partition(".")[0]:
        case "PATH_NOT_FOUND":
            return InputError, f"{_path(given.get('path', ''))}: no such file or folder"
        case "PATH_ALREADY_EXISTS":
            return InputError, f"{_path(given.get('outputPath', ''))} is there already"
        case "UNABLE_TO_INFER_SCHEMA":
            return InputError, "no data files there"
        case "UNRESOLVED_COLUMN":
            wanted = given.get("objectName", "").strip("`")
            there = re.findall(r"`([^`]+)`", given.get("proposal", ""))
            known = f"; the columns are {', '.join(there)}" if there else ""
            return InputError, f"no column {wanted!r}{known}{maybe_meant(wanted, there)}"
        case "USER_RAISED_EXCEPTION" if "which no filter can compare" in given.get("errorMessage", ""):
            return InputError, given["errorMessage"]
        case "PYTHON_VERSION_MISMATCH":
            return PipelineError, "the workers run another Python than this one: set PYSPARK_PYTHON to the same version"
    return None


def _parameters(error: Any) -> dict[str, str]:
    found = error.getMessageParameters() if hasattr(error, "getMessageParameters") else None
    return dict(found or {})


# -- errors known only by their text; the first match counts, and `{0}` is its first group

_Table = tuple[tuple[str, type[OctopiaError], str], ...]
_FILE: Final = r"((?:[a-z0-9]+:/|/)[^\s:;,()]+)"
_NO_RIGHTS: Final = "{0}: permission denied; check the rights of the file and its folder"
_JVM_GONE: Final = "Spark's JVM ended unexpectedly"
_JAVA: Final[_Table] = (
    (r"CANNOT_READ_FILE_FOOTER", InputError, "not a Parquet file, or damaged"),
    (_FILE + r" \(Permission denied\)", InputError, _NO_RIGHTS),
    (r"AccessDeniedException: " + _FILE, InputError, _NO_RIGHTS),
    (r"AccessControlException: Permission denied: ([^\n]+)", InputError, "permission denied: {0}"),
    (r"Mkdirs failed to create " + _FILE, InputError, "{0}: cannot be made; check the rights of the folders above it"),
    (r"FileAlreadyExistsException: (?:Output directory )?" + _FILE, InputError, "{0} is there already"),
    (r"No space left on device", PipelineError, "the disk is full: free some, or set TMPDIR and --out to another disk"),
    (r"FileNotFoundException: (?:File )?" + _FILE, InputError, "{0}: no such file; was it changed while it was read?"),
    (r"ZipException|EOFException: Unexpected end of", InputError, "the compressed file is cut short or damaged"),
    (r"not a gzip file|incorrect header check|Not in GZIP format", InputError, "the .gz file is not gzip"),
    (
        r"Class org\.apache\.hadoop\.fs\.(s3a)\.",
        InputError,
        "this Spark has no reader for {0}://: add --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION",
    ),
    (r'No FileSystem for scheme "([^"]+)"', InputError, "this Spark knows no storage {0}://"),
    (r"UnknownHostException: (\S+)", InputError, "host {0} is unknown"),
    (r"Call From \S+ to (\S+) failed on connection", PipelineError, "cannot reach {0}: is it running?"),
    (r"All masters are unresponsive", PipelineError, "the master no longer answers: is it still running?"),
    (r"OutOfMemoryError: ([^\n]+)", PipelineError, "out of memory ({0}): raise it, --conf spark.driver.memory=4g"),
    (
        r"Python worker exited unexpectedly|Python worker failed to connect",
        PipelineError,
        "a Python worker ended early, usually for lack of memory: use fewer cores at once, e.g. --master local[1]",
    ),
    (r'Cannot run program "([^"]+)"', PipelineError, "the workers have no {0}: set PYSPARK_PYTHON to their Python"),
    (r"ExecutorLostFailure \(([^)\n]+)", PipelineError, "executors were lost too often ({0})"),
    (r"SparkContext was shut down|stopped SparkContext", PipelineError, "the Spark session was stopped"),
    (r"Answer from Java side is empty|Connection refused|Error while receiving", PipelineError, _JVM_GONE),
)
_JVM_START: Final[_Table] = (
    (
        r"Invalid maximum heap size|Could not reserve enough space",
        PipelineError,
        "not enough memory for the driver: ask for less, --conf spark.driver.memory=1g",
    ),
    (r"(Unrecognized VM option [^\n]+)", InputError, "{0}: check spark.driver.extraJavaOptions"),
    (r"UnsupportedClassVersionError", PipelineError, "this Java is too old: unset JAVA_HOME to use the bundled one"),
    (r"No space left on device", PipelineError, "the disk is full: free some, or set TMPDIR to another disk"),
)


def _from_text(error: Exception) -> _Found | None:
    if isinstance(error, EOFError | ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return PipelineError, _JVM_GONE
    return _in_table(str(error), _JAVA)


def _in_table(text: str, table: _Table) -> _Found | None:
    for pattern, kind, message in table:
        if found := re.search(pattern, text):
            return kind, _named(message.format(*map(_path, found.groups(""))), text)
    return None


def _named(problem: str, text: str) -> str:
    """Add the file that Spark was reading, if only the text around the error names it."""
    reading = re.search(r"while reading file " + _FILE, text)
    file = _path(reading[1]).rstrip(".") if reading else ""
    return problem if file in problem else f"{file}: {problem}"


def _unforeseen(error: Exception) -> _Found:
    """Spark's own message: the deepest cause of a Java error, else the first line."""
    text = str(error)
    causes = re.findall(
        r"^(?:Caused by|:)?\s*:?\s*((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): [^\n]+)", text, re.MULTILINE
    )
    if causes:
        return PipelineError, causes[-1]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat")]
    return PipelineError, lines[0] if lines else type(error).__name__


def _path(text: str) -> str:
    """A local file as a path, anything else unchanged."""
    return re.sub(r"/_temporary/.*", "", re.sub(r"^file:/+", "/", text))


def _shown(problem: str) -> str:
    line = re.sub(r"\s+", " ", one_line(problem)).strip()
    return line if len(line) <= _LINE_CHARS_MAX else f"{line[:_LINE_CHARS_MAX]}…"
