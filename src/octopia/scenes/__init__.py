"""Scenes as scenario files: the paper's Fig. 5 to 8, and full dynamic routing idle, under load and with dead brokers.

`octopia demo` replays them; they are also examples to copy.
"""

from importlib.resources import files

PAPER_NAMES = ("fig5", "fig6", "fig7a", "fig7b", "fig7c", "fig7d", "fig8")
FDR_NAMES = ("fdr-idle", "fdr-load", "fdr-dead")
NAMES = (*PAPER_NAMES, *FDR_NAMES)


def scene_text(name: str) -> str:
    """The JSON text of a scene."""
    return files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
