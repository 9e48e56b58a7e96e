"""The arrays of the compiled reader (`scan_numba`): what it has learnt of attribute names, and the last read.

A *signature* is a combination of attribute names, in their order. Names and signatures are numbered as they are met,
over all reads of a broker, so that whatever follows from them is worked out once: how a notification is placed among
the subscriptions, and what its publisher's advertisements leave to test. A scan ends at a new one, Python learns it,
and the scan goes on from there. With half of the room in use, all are forgotten.

Publishers and headers of copies are numbered within a read.
"""

from typing import Any, Final

import numpy as np

from octopia.language import STRING_CHARS_MAX
from octopia.matching import Names
from octopia.matching.tokens import NOTE_COLUMNS, TOKEN_COLUMNS
from octopia.sheets import Sheet
from octopia.wire.limits import NAME_CHARS_MAX, WireLimits

# Lines of the sheet. Names: where each begins among their texts and its bytes; the texts; numbers by hash; for each
# name, and before the first, the name that followed it the last time. Signatures: where each begins among their names,
# its length and its hash; the names; numbers by hash. Then what one scan leaves: notifications, tokens and their
# numbers, publishers and headers, with their numbers by hash.
(
    NAMES, NAME_TEXTS, NAME_SLOTS, FOLLOWS, SIGNATURES, SIGNATURE_NAMES, SIGNATURE_SLOTS, NOTES, TOKENS, NUMBERS,
    PUBLISHERS, PUBLISHER_SLOTS, HEADERS, HEADER_SLOTS,
) = range(14)  # fmt: skip
SHEET_LINES: Final = 14

# Notifications and attributes of one scan; a larger read takes several.
NOTES_MAX: Final = 2_048
TOKENS_MAX: Final = 24_576
# Notifications with more attributes are read in Python.
ATTRIBUTES_MAX: Final = 256
# Publishers and headers of one scan.
PUBLISHERS_MAX: Final = 512
HEADERS_MAX: Final = 512
# Attribute names and their bytes, signatures and their names: at most twice this much, 600 KB in all.
NAMES_MAX: Final = 2_048
NAMES_BYTES_MAX: Final = 64 * 1024
SIGNATURES_MAX: Final = 2_048
SIGNATURE_NAMES_MAX: Final = 32_768


class Scanner:
    """What the compiled reader of one broker works with. `names` are the attribute names that it knows, by number."""

    __slots__ = (
        "_kernels",
        "_name_numbers",
        "_signature_names",
        "_signature_of",
        "_text_bytes",
        "limits",
        "names",
        "scans",
        "sheet",
        "signatures",
    )

    def __init__(self, limits: WireLimits) -> None:
        from octopia.wire import scan_numba

        self._kernels: Any = scan_numba
        self.limits = (min(limits.attributes_max, ATTRIBUTES_MAX), STRING_CHARS_MAX, NAME_CHARS_MAX)
        self.sheet = Sheet(SHEET_LINES)
        self.sheet.put(NOTES, np.zeros((NOTES_MAX, NOTE_COLUMNS), dtype=np.int64))
        self.sheet.put(TOKENS, np.zeros((TOKENS_MAX, TOKEN_COLUMNS), dtype=np.int32))
        self.sheet.put(NUMBERS, np.zeros(TOKENS_MAX, dtype=np.float64))
        self.sheet.put(PUBLISHERS, np.zeros((PUBLISHERS_MAX, 3), dtype=np.int64))
        self.sheet.put(HEADERS, np.zeros((HEADERS_MAX, 3), dtype=np.int64))
        for line, room in ((PUBLISHER_SLOTS, PUBLISHERS_MAX), (HEADER_SLOTS, HEADERS_MAX)):
            self.sheet.put(line, np.zeros(4 * room, dtype=np.int64))
        self.scans = 0  # the number of the last scan: 47 bits last for centuries
        self.forget()

    def forget(self) -> None:
        """Begin anew, without names."""
        self.names = Names()
        self.signatures: list[tuple[str, ...]] = []
        self._name_numbers: dict[str, int] = {}
        self._signature_of: dict[tuple[str, ...], int] = {}
        self._text_bytes = self._signature_names = 0
        self.sheet.put(NAMES, np.zeros((2 * NAMES_MAX, 2), dtype=np.int64))
        self.sheet.put(NAME_TEXTS, np.zeros(2 * NAMES_BYTES_MAX + 8, dtype=np.uint8))
        self.sheet.put(NAME_SLOTS, np.full(8 * NAMES_MAX, -1, dtype=np.int32))
        self.sheet.put(FOLLOWS, np.full(2 * NAMES_MAX + 1, -1, dtype=np.int32))
        self.sheet.put(SIGNATURES, np.zeros((2 * SIGNATURES_MAX, 3), dtype=np.int64))
        self.sheet.put(SIGNATURE_NAMES, np.zeros(2 * SIGNATURE_NAMES_MAX, dtype=np.int32))
        self.sheet.put(SIGNATURE_SLOTS, np.full(8 * SIGNATURES_MAX, -1, dtype=np.int32))

    def learn(self, names: tuple[str, ...]) -> None:
        """Know these names, and their combination, from the next scan on. None of them is repeated."""
        if (
            len(self.names.words) > NAMES_MAX
            or self._text_bytes > NAMES_BYTES_MAX
            or len(self.signatures) > SIGNATURES_MAX
            or self._signature_names > SIGNATURE_NAMES_MAX
        ):
            self.forget()
        numbers = [self._number_of(name) for name in names]
        if names in self._signature_of:
            return
        number, start = len(self.signatures), self._signature_names
        self._signature_of[names] = number
        self.signatures.append(names)
        self._signature_names += len(names)
        self.sheet[SIGNATURE_NAMES][start : start + len(names)] = numbers
        self.sheet[SIGNATURES][number, :2] = start, len(names)
        self._kernels.put_signature(self.sheet.address, number)

    def _number_of(self, name: str) -> int:
        known = self._name_numbers
        number = known.get(name)
        if number is None:
            text = name.encode()
            number = known[name] = len(self.names.words)
            self.names.words.append(name)
            at = self._text_bytes
            self.sheet[NAME_TEXTS][at : at + len(text)] = np.frombuffer(text, dtype=np.uint8)
            self.sheet[NAMES][number] = at, len(text)
            self._text_bytes += len(text)
            self._kernels.put_name(self.sheet.address, number)
        return number

    def can_learn(self, names: tuple[str, ...]) -> bool:
        """Whether notifications with these names can be read by compiled code at all."""
        return len(names) <= self.limits[0] and sum(map(len, names)) <= NAMES_BYTES_MAX // 4
