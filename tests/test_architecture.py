"""The machine-checkable rules of ARCHITECTURE.md: imports, forbidden knowledge of the core, public names."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

import octopia

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "octopia"

# Each may import those before it, never those after.
LAYERS = [
    {"errors", "hints", "lazy", "native", "sheets", "version"},
    {"extras", "toml_file"},
    {"language", "topology"},
    {"matching", "protocol", "workload"},
    {"routing", "wire"},
    {"trace"},
    {"scenes", "embedded", "sim", "net"},
    {"drawing", "metrics", "watch"},
    {"testbed"},
    {"experiments", "console"},
    {"planning"},
    {"pipeline"},
    {"spark"},
    {"cli"},
    {"__init__", "__main__"},
]
CORE = ("language", "topology", "matching", "routing", "wire")
# Clock, chance, concurrency and I/O have no place in the core.
FORBIDDEN_IN_CORE = {
    "asyncio", "concurrent", "datetime", "logging", "multiprocessing", "os", "random", "secrets", "socket",
    "subprocess", "threading", "time", "uuid",
}  # fmt: skip
# Folders of independent files, which have no public names of their own.
ONE_FILE_EACH = {("experiments", "scenes"), ("experiments", "scenes_report")}
# Compiled code that other compiled code calls. As public names they would load numba with their package.
KERNELS = {("matching", "find_numba"), ("matching", "predicates_numba"), ("wire", "scan_numba")}
# The columns of arrays that compiled code of several packages reads. Any file may import these constants.
LAYOUTS = {("matching", "tokens"), ("routing", "rows"), ("wire", "scanner")}
# Two modules may import each other: arrays and the compiled code that works on them, and these.
PAIRS = [
    {"octopia.sim.links", "octopia.sim.node"},  # the two ends of a link, and the links of a broker
    {"octopia.pipeline.stage_figures", "octopia.pipeline.whole"},  # the last stage shows all of them
]
LINES_MAX = 1_000
PUBLIC_METHODS_MAX = 30
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {".".join(p.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): p for p in FILES}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def layer_of(part: str) -> int:
    for level, parts in enumerate(LAYERS):
        if part in parts:
            return level
    raise AssertionError(f"{part} is in no layer: add it to LAYERS and to ARCHITECTURE.md")


def imports_of(path: Path) -> list[str]:
    """All of them: also those in functions, and those for type checkers only."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_up_the_list_only(path: Path) -> None:
    here = part_of(path)
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "octopia" and len(parts) > 1 and parts[1] != "__version__":
            assert parts[1] == here or layer_of(parts[1]) < layer_of(here), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_another_folder_is_used_through_its_public_names(path: Path) -> None:
    """`from octopia.language import X`, never `from octopia.language.values import X` from outside."""
    here = part_of(path)
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir()}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("octopia."):
            parts = node.module.split(".")
            if parts[1] in folders and parts[1] != here and len(parts) > 2:
                allowed = ONE_FILE_EACH | (KERNELS if path.stem.endswith("_numba") else set())
                if all(alias.name.isupper() for alias in node.names):
                    allowed |= LAYOUTS
                assert tuple(parts[1:3]) in allowed, f"{path.name} imports {node.module}"


def test_no_more_than_two_modules_import_each_other() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, path in MODULES.items():
        for name in imports_of(path):
            imported = name if name in MODULES else name.rpartition(".")[0]
            if imported in MODULES:
                graph.add_edge(module, imported)
    cycles = [cycle for cycle in nx.strongly_connected_components(graph) if len(cycle) > 1]
    compiled = [cycle for cycle in cycles if len(cycle) == 2 and any(name.endswith("_numba") for name in cycle)]
    assert [cycle for cycle in cycles if cycle not in compiled and cycle not in PAIRS] == []


# What both rooms of `net` use; it knows neither.
SHARED_IN_NET = {"addresses", "channel", "frame_queue", "limits", "pauses", "secret", "tls"}
NET = SOURCE / "net"
ROOMS = {
    "shared": ([NET / f"{name}.py" for name in sorted(SHARED_IN_NET)], set[str]()),
    "broker": (sorted((NET / "broker").rglob("*.py")), {"broker"}),
    "client": (sorted((NET / "client").rglob("*.py")), {"client"}),
}


@pytest.mark.parametrize("room", ROOMS)
def test_the_rooms_of_net_share_what_is_shared_and_nothing_else(room: str) -> None:
    files, own = ROOMS[room]
    for path in files:
        used = {name.split(".")[2] for name in imports_of(path) if name.startswith("octopia.net.")}
        assert used <= SHARED_IN_NET | own, path.name


def test_no_part_of_a_broker_knows_the_host_and_operations_know_no_part() -> None:
    for path in ROOMS["broker"][0]:
        used = [name for name in imports_of(path) if name.startswith("octopia.net.broker.")]
        assert path.name == "server.py" or not [n for n in used if n.startswith("octopia.net.broker.host")], path.name
        if path.parent.name == "operations":
            assert [n for n in used if not n.startswith("octopia.net.broker.operations.")] == []


def parts_used(path: Path) -> set[str]:
    """The parts of `net` that a file uses, as `router.Router`, without the names of folders."""
    return {".".join(name.split(".")[-2:]) for name in imports_of(path) if name.startswith("octopia.net.")}


QUEUES = {"client_queue", "frame_queue", "link_queue"}


@pytest.mark.parametrize("path", sorted((NET / "broker" / "engine").glob("*.py")), ids=lambda p: p.name)
def test_an_engine_never_touches_a_queue(path: Path) -> None:
    """It makes bundles; the router puts them into queues."""
    used = {name for name in parts_used(path) if name.split(".")[0] in QUEUES}
    assert used <= {"frame_queue.Bundle", "frame_queue.NEVER", "frame_queue.Tag"}


def test_a_queue_never_knows_what_a_frame_means() -> None:
    """It can tell frames apart, and makes two itself: how many notifications were dropped, or became too old."""
    used = {name for name in imports_of(NET / "frame_queue.py") if name.startswith("octopia.")}
    assert used <= {
        "octopia.errors.RemoteProtocolError",
        "octopia.wire.Dropped",
        "octopia.wire.TooOld",
        "octopia.wire.message_frame",
        "octopia.wire.split_frames",
    }


@pytest.mark.parametrize("path", sorted((NET / "broker").glob("*record*.py")), ids=lambda p: p.name)
def test_an_observer_changes_nothing(path: Path) -> None:
    """It knows values, the log, and queues as far as it observes them, and no part of a broker that acts."""
    used = {name.split(".")[0] for name in parts_used(path) if not name.endswith("Observer")}
    assert used <= {"frame_queue", "log", "outcome", *(p.stem for p in (NET / "broker").glob("*record*.py"))}


@pytest.mark.parametrize("path", [p for p in FILES if part_of(p) in CORE], ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_core_knows_no_clock_no_chance_and_no_io(path: Path) -> None:
    found = {name.split(".")[0] for name in imports_of(path)} & FORBIDDEN_IN_CORE
    if path.name in ("overlay_file.py", "toml_text.py", "placement.py"):
        found -= {"os"}
    assert not found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_file_opens_by_stating_its_job_and_is_of_readable_size(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "no head comment"
    assert len(text.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_class_has_too_many_public_methods(path: Path) -> None:
    """Properties are not counted. A class is not cut in two to keep its file short, but because it has two jobs."""
    for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(kind, ast.ClassDef):
            methods = [n for n in kind.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = [n.name for n in methods if not n.name.startswith("_") and not n.decorator_list]
            assert len(public) <= PUBLIC_METHODS_MAX, kind.name


def test_only_sheets_resize_arrays_that_compiled_code_reads_by_address() -> None:
    """`matching/answers.py` resizes arrays that are in no sheet."""
    resizing = [path.name for path in FILES if "refcheck=" in path.read_text(encoding="utf-8")]
    assert resizing == ["answers.py", "sheets.py"]


def test_a_class_name_means_one_thing_in_all_packages_that_make_a_broker() -> None:
    """A session has a side at each end."""
    found: dict[str, list[str]] = {}
    for path in FILES:
        if part_of(path) in {*CORE, "native", "net", "protocol", "sheets"}:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(path.name)
    repeated = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert repeated == {"Session": ["sessions.py", "session.py"]}


def test_public_names_are_there_and_sorted() -> None:
    assert [name for name in octopia.__all__ if not hasattr(octopia, name)] == []
    assert sorted(octopia.__all__) == octopia.__all__


LAZY_PACKAGES = sorted(path for path in FILES if path.name == "__init__.py" and "lazily(" in path.read_text())


@pytest.mark.parametrize("path", LAZY_PACKAGES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_names_that_load_late_are_listed_alike_for_python_and_for_type_checkers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        node.module: sorted(alias.name for alias in node.names)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    [table] = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    assert {m: sorted(names.split()) for m, names in ast.literal_eval(table).items()} == typed
    # Python puts a loaded submodule into the package under its own name, so none may be called like a public name.
    submodules = {file.stem for file in path.parent.iterdir()}
    assert not submodules & {name for names in typed.values() for name in names}
    package = importlib.import_module(".".join(path.parent.relative_to(SOURCE.parent).parts))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import octopia", ["asyncio", "msgspec", "numpy", "octopia.language", "sqlglot", "typer"]),
        ("import octopia; octopia.connect", ["networkx", "numpy", "octopia.net.broker", "pyarrow", "sqlglot", "typer"]),
        ("import octopia; octopia.Overlay", ["networkx", "numba", "pyarrow", "sqlglot", "typer"]),
        ("import octopia; octopia.parse_filter('price > 10')", ["asyncio", "msgspec", "numpy", "sqlglot"]),
        ("import octopia.metrics, octopia.experiments", ["sqlglot"]),
        ("import octopia.cli.app", ["asyncio", "msgspec", "numpy", "octopia.net", "sqlglot"]),
    ],
)
def test_nothing_is_loaded_before_it_is_needed(statement: str, unwanted: list[str]) -> None:
    script = f"import sys\n{statement}\nprint([name for name in {unwanted} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
