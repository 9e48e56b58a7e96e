"""How long a test waits for what must come: so long that only a hang meets it, however busy the machine is.

Tests measure no time and wait for no fixed time. Where something cannot be waited for without a
limit, the limit is `HANG_S`; where the product itself gives up after a while, a test that is not about that raises the
product's limit to it.
"""

from typing import Final

HANG_S: Final = 1000.0

# For a script that a test runs: Spark's JVM may take as long as it likes to answer and to end.
PATIENT_SPARK: Final = f"""
from octopia.pipeline import gateway, interrupts, session as _session
interrupts.PATIENCE_S = gateway.START_TIMEOUT_S = gateway.STOP_TIMEOUT_S = _session.STOP_TIMEOUT_S = {HANG_S}
"""
