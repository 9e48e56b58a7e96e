"""The paper's scenes as scenario files: Fig. 5 to 8. `octopia demo` replays them; they are also examples to copy."""

from importlib.resources import files

NAMES = ("fig5", "fig6", "fig7a", "fig7b", "fig7c", "fig7d", "fig8")


def scene_text(name: str) -> str:
    """The JSON text of a scene."""
    return files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
