"""All tests that share the Spark session, in one file for xdist; they stand in `cases_*.py`, and are found by name."""

from importlib import import_module
from pathlib import Path

from _pytest.fixtures import FixtureFunctionDefinition

for _file in sorted(Path(__file__).parent.glob("cases_*.py")):
    for _name, _test in vars(import_module(f"tests.pipeline.{_file.stem}")).items():
        if _name.startswith("test_") or isinstance(_test, FixtureFunctionDefinition):
            # Fixtures, too, are looked for in the file that runs. Of two tests of one name only one would be run.
            assert _name not in globals(), f"{_file.name}: another file has a {_name} too"
            globals()[_name] = _test
