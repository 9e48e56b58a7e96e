"""Scenes as scenario files: the paper's Fig. 1 and 5 to 8, and full dynamic routing idle, loaded and with dead brokers.

`octopia demo` replays those of Fig. 7, Fig. 8 and full dynamic routing; all are examples to copy.
"""

from importlib.resources import files

PAPER_NAMES = ("fig5", "fig6", "fig7a", "fig7b", "fig7c", "fig7d", "fig8")
# What TID routing does; the other routings make no trees of advertisements.
TID_NAMES = ("fig1a", "fig1b", "fig1c")
FDR_NAMES = ("fdr-idle", "fdr-load", "fdr-dead")
NAMES = (*TID_NAMES, *PAPER_NAMES, *FDR_NAMES)


def scene_text(name: str) -> str:
    """The JSON text of a scene."""
    return files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
