"""Optional packages: the extra that provides each, and the error if one is missing.

Brokers and clients need few packages. Packages that only some users need are extras, and the error names the one
command that installs them.
"""

from octopia.errors import OctopiaError

# The top-level module of each optional package, and the extra that brings it. pyproject.toml says the rest.
EXTRA_OF = {
    "cryptography": "certificates",
    "duckdb": "sim",
    "matplotlib": "figures",
    "networkx": "graphs",
    "numba": "fast",
    "pyarrow": "arrow",
    "pyspark": "spark",
    "sqlglot": "spark",
    "starlette": "console",
    "uvicorn": "console",
}


def install(module: str) -> str:
    """The command that installs what brings `module`, quoted for every shell."""
    return f"pip install 'octopia[{EXTRA_OF[module]}]'"


def missing(module: str, what: str) -> OctopiaError:
    """The error of `what` (a plural noun) where `module` is not installed."""
    return OctopiaError(f"{what} need {module}, which is not installed: {install(module)}")
