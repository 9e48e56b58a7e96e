"""Numbers for people: few digits, the right unit, one form everywhere (screen, report, documentation)."""

from math import isfinite

from octopia.experiments.intervals import Interval

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def shown(value: float | None, unit: str) -> str:
    """A value with its unit: `10.7 ms`, `29.2 %`, `1,234`."""
    if value is None or not isfinite(value):
        return "–"
    if unit == "s":
        factor, name = _scale(abs(value))
        return f"{digits(value / factor)} {name}"
    if unit == "share":
        return f"{value * 100:.1f} %"
    return digits(value)


def shown_interval(found: Interval, unit: str) -> str:
    """A mean with its 95 % interval, `10.7 ± 0.2 ms`, and the number of runs without a value."""
    if found.mean is None:
        return "never" if found.missing else "–"
    text = shown(found.mean, unit)
    if found.half is not None:
        factor, name = _scale(abs(found.mean)) if unit == "s" else (0.01, "%") if unit == "share" else (1.0, "")
        half = f"{found.half / factor:.1f}" if unit == "share" else _rough(found.half / factor)
        number = text.removesuffix(name).rstrip()
        text = f"{number} ± {half} {name}".rstrip()
    return f"{text} ({found.missing} never)" if found.missing else text


def signed(value: float | None, unit: str) -> str:
    """A difference: `+3.1 %`, `-239 s`."""
    if value is None:
        return "–"
    return f"{'+' if value >= 0 else '-'}{digits(abs(value))} {unit}".rstrip()


def signed_interval(found: Interval, unit: str) -> str:
    """A difference with its 95 % interval: `-17.5 ± 1.2 %`."""
    if found.mean is None:
        return "–"
    half = "" if found.half is None else f" ± {found.half:.2g}"
    return f"{signed(found.mean, '')}{half} {unit}"


def digits(value: float) -> str:
    """About three digits, with thousands separators; whole numbers stay whole."""
    size = abs(value)
    if size >= 1000 or (size == int(size) and size >= 1):
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"


def _rough(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _scale(size: float) -> tuple[float, str]:
    return next(((factor, name) for factor, name in _SECONDS if size >= factor), _SECONDS[0 if size == 0 else -1])
