"""Experiment settings on the command line: `--set KEY=VALUE`, and options that stand for a setting."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from octopia.errors import InputError

if TYPE_CHECKING:
    from octopia.experiments import Settings


def parse_set(text: str) -> tuple[str, Any]:
    """The key and the value of one `--set`."""
    from octopia.experiments import parse_value

    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: write KEY=VALUE, for example tau=5")
    return key.strip(), parse_value(value.strip())


def with_options(settings: "Settings", sets: Iterable[str], options: Mapping[str, Any]) -> "Settings":
    """These settings, changed by every `--set` and then by the given options."""
    from octopia.experiments import changed

    for text in sets:
        key, value = parse_set(text)
        settings = changed(settings, {key: value}, f"--set {text}")
    for key, value in options.items():
        if value is not None:
            settings = changed(settings, {key: value}, f"--{key}")
    return settings
