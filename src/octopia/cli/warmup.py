"""`octopia warmup`: what takes long the first time is done ahead of time: compiled kernels, and Spark's classes."""

import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from octopia.cli.terminal import out


def warmup() -> None:
    """Compile the kernels for matching, brokers and Arrow, and archive the Java classes of Spark, unless that is done.

    Takes about a minute, once per installation; the results are kept on disk. With the archive, Spark starts in half
    the time. `make setup` does this for you.
    """
    # A JVM writes the archive while this process compiles.
    with ThreadPoolExecutor(1) as threads:
        kernels = threads.submit(_warm_up_kernels)
        _warm_up_spark()
        out().print(kernels.result())


def _warm_up_kernels() -> str:
    from octopia.net import warm_up

    begin = time.perf_counter()
    if warm_up() != "numba":
        return "Kernels: numba is not installed, numpy kernels are used."
    if find_spec("pyarrow") is not None:
        from octopia.wire import load_kernels

        load_kernels()
    return f"Kernels: compiled and ready ({time.perf_counter() - begin:.1f} s)."


def _warm_up_spark() -> None:
    """Best effort: without an archive, or without Java, everything that worked before still works."""
    if find_spec("pyspark") is None:
        out().print("Spark: not installed.")
        return
    from octopia.errors import OctopiaError
    from octopia.pipeline import make_archive

    begin = time.perf_counter()
    try:
        archive = make_archive()
    except (OctopiaError, OSError) as error:
        out().print(f"Spark: no archive of its classes, so it starts more slowly: {error}", highlight=False)
        return
    size = archive.stat().st_size / 1e6
    out().print(f"Spark: {size:.0f} MB of classes are ready ({time.perf_counter() - begin:.1f} s).")
