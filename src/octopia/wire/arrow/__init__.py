"""Arrow at a client's edge: record batches to PUBLISH frames, and delivered parcels to record batches.

Brokers know nothing of this package. Its callers load it when a program first uses Arrow, since pyarrow takes longer to
load than the rest of the client. Kernels (`numba_*.py`) do the work per row if numba is installed; without it, Python
gives the same results row by row.
"""
