"""`octopia warmup`: compile the matching kernels now, so that the first notification does not wait for it."""

import time

from octopia.cli.console import out


def warmup() -> None:
    """Compile the matching kernels, or load them where that was done before.

    Compiling takes some seconds once per installation; what was compiled is kept on disk. `make setup` does this.
    """
    from octopia.matching import warm_up

    begin = time.perf_counter()
    kernels = warm_up()
    took_s = time.perf_counter() - begin
    what = "compiled kernels are ready" if kernels == "numba" else "numba is not installed, numpy kernels are used"
    out().print(f"Matching: {what} ({took_s:.1f} s).")
