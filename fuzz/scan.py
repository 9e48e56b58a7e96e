"""A long-running fuzz target: mutated frames through the compiled reader and the ordinary one.

    python -m fuzz.scan [SECONDS] [SEED]

Whatever the compiled reader accepts the ordinary reader must accept, with the same attributes, values, publisher and
sequence number. It may leave anything to the ordinary reader. A failure prints the seed of its round and the frames.
The test suite does the same for a bounded number of frames (`tests/wire/test_scan.py`).
"""

import random
import sys
import time

from tests.wire.test_scan import Readers, drawn_frame, mutated

from octopia.matching import kernels_in_use

FRAMES = 200


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if kernels_in_use() != "numba":
        sys.exit("numba is not installed: there is no compiled reader")
    readers = Readers()
    until, told = time.monotonic() + seconds, time.monotonic()
    frames = taken = 0
    while time.monotonic() < until:
        draw = random.Random(seed)  # noqa: S311
        some = [
            mutated(draw, drawn_frame(draw, n)) if draw.random() < 0.8 else drawn_frame(draw, n) for n in range(FRAMES)
        ]
        try:
            taken += readers.check(b"".join(some))
        except Exception as error:
            error.add_note(f"seed {seed}: {b''.join(some).hex()}")
            raise
        frames += FRAMES
        seed += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{frames:,} frames, of which {taken:,} were accepted; seed {seed}", flush=True)  # noqa: T201
    print(f"{frames:,} frames, of which {taken:,} were accepted, all as the ordinary reader does")  # noqa: T201


if __name__ == "__main__":
    main()
