"""`octopia warmup`: what takes long the first time is done ahead of time: compiled kernels, and Spark's classes."""

import time
from importlib.util import find_spec

from octopia.cli.terminal import out


def warmup() -> None:
    """Compile the kernels for matching and brokers, and archive the Java classes of Spark, unless that is done.

    Takes up to a minute, once per installation; the results are kept on disk. With the archive, Spark starts in half
    the time. `make setup` does this for you.
    """
    from octopia.net import warm_up

    begin = time.perf_counter()
    kernels = warm_up()
    took_s = time.perf_counter() - begin
    what = "compiled kernels are ready" if kernels == "numba" else "numba is not installed, numpy kernels are used"
    out().print(f"Matching: {what} ({took_s:.1f} s).")
    _warm_up_spark()


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
