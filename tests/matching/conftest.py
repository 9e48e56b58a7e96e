"""Every test of this folder that asks for `kernels` runs with both: compiled and numpy."""

from collections.abc import Iterator

import pytest

from octopia.matching import use_kernels


@pytest.fixture(params=["numba", "numpy"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if name == "numba":
        pytest.importorskip("numba")
    use_kernels(name)
    yield name
    use_kernels(None)
