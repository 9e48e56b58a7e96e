"""Dates in the spellings of users' files.

A date that names its own form is read as it is: year first (2018-02-07, 2018/2/7, 20180207, each also with a time of
day behind it, which is dropped), or a month in letters (07-Feb-18, 7 Feb 2018, Feb 7, 2018). Of three numbers with the
year last (07-02-2018, 7/2/2018, 7.2.2018) only the file can tell whether the day or the month comes first, so they are
read in the order of their file: the one that its dates prove, by holding a day above 12. A file whose dates prove
nothing, or prove both orders more than occasionally, is refused. Years of two digits are read only beside a month in
letters: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, TypeAlias

from octopia.errors import InputError

DayOrder: TypeAlias = Literal["dmy", "mdy"]

# Tolerated dates per file that only the other order can read: typing errors, not a second convention.
CONTRARY_SHARE_MAX: Final = 0.05

_CHARS_MAX: Final = 40
_TIME: Final = r"(?:[T ]\s*[0-9]{1,2}:[0-9]{2}.*)?"
_YEAR_FIRST: Final = re.compile(r"([0-9]{4})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})" + _TIME)
_YEAR_LAST: Final = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4})" + _TIME)
_DAY_MONTH: Final = re.compile(r"([0-9]{1,2})[- /.]?([A-Za-z]{3,9})[- /.,]?\s*([0-9]{4}|[0-9]{2})" + _TIME)
_MONTH_DAY: Final = re.compile(r"([A-Za-z]{3,9})\.?[- ]([0-9]{1,2}),?[- ]\s*([0-9]{4})" + _TIME)
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_PIVOT: Final = 69


@dataclass(frozen=True)
class DateEvidence:
    """What the dates of a file prove: how many can be read in one order only, and in either. Parts of a file add up."""

    only_dmy: int = 0
    only_mdy: int = 0
    either: int = 0
    example: str = ""

    def __add__(self, other: "DateEvidence") -> "DateEvidence":
        return DateEvidence(
            self.only_dmy + other.only_dmy,
            self.only_mdy + other.only_mdy,
            self.either + other.either,
            self.example or other.example,
        )

    def order(self, file: str) -> DayOrder | None:
        """The order of the file's dates; None if no date needs one. An `InputError` if it is unclear."""
        if not (self.only_dmy or self.only_mdy or self.either):
            return None
        less, more = sorted((self.only_dmy, self.only_mdy))
        if more == 0:
            raise InputError(
                f"{file}: dates such as {self.example} may be day-month-year or month-day-year, and no date of the "
                "file tells which; say date_order='dmy' or date_order='mdy'"
            )
        if less > CONTRARY_SHARE_MAX * (less + more):
            raise InputError(
                f"{file}: {self.only_dmy:,} dates can only be day-month-year and {self.only_mdy:,} only "
                "month-day-year; split the file, or say date_order='dmy' or 'mdy' and the others are rejected"
            )
        return "dmy" if self.only_dmy > self.only_mdy else "mdy"


def date_evidence(times: Mapping[str, int]) -> DateEvidence:
    """What dates prove about the order of days and months; given is how often each text occurs."""
    only_dmy = only_mdy = either = 0
    example = ""
    for text, count in times.items():
        form = _YEAR_LAST.fullmatch(text.strip()) if len(text) <= _CHARS_MAX else None
        if form is None:
            continue
        day_first, month_first = _in_order(form, "dmy"), _in_order(form, "mdy")
        if day_first is not None and day_first == month_first:
            continue  # 02-02-2018 is the same in both orders, so it needs none
        if day_first is not None and month_first is not None:
            either += count
            example = example or form[0]
        elif day_first is not None:
            only_dmy += count
        elif month_first is not None:
            only_mdy += count
    return DateEvidence(only_dmy, only_mdy, either, example)


def needs_order(text: str) -> bool:
    """Whether this date can be read only with the order of its file."""
    return len(text) <= _CHARS_MAX and _YEAR_LAST.fullmatch(text.strip()) is not None


def read_date(text: str, order: DayOrder | None) -> date | None:
    """The date that the text spells, or None."""
    text = text.strip()
    if len(text) > _CHARS_MAX:
        return None
    if form := _YEAR_FIRST.fullmatch(text):
        # Without separators only eight digits are clear.
        if not form[2] and not (len(form[3]) == len(form[4]) == 2):
            return None
        return _date(int(form[1]), int(form[3]), int(form[4]))
    if form := _YEAR_LAST.fullmatch(text):
        return _in_order(form, order or "dmy") if order or form[1] == form[3] else None
    if form := _DAY_MONTH.fullmatch(text):
        return _date(_full_year(form[3]), _month(form[2]), int(form[1]))
    if form := _MONTH_DAY.fullmatch(text):
        return _date(int(form[3]), _month(form[1]), int(form[2]))
    return None


def _in_order(form: re.Match[str], order: DayOrder) -> date | None:
    day, month = (form[1], form[3]) if order == "dmy" else (form[3], form[1])
    return _date(int(form[4]), int(month), int(day))


def _full_year(digits: str) -> int:
    year = int(digits)
    return year if len(digits) == 4 else year + (1900 if year >= _PIVOT else 2000)


def _month(word: str) -> int:
    for number, name in enumerate(_MONTHS, 1):
        if name == word.lower() or name[:3] == word.lower():
            return number
    return 0


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
