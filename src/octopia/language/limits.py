"""Every bound of the language, in one place.

Constants only, each with its unit last in the name and the reason for its size. Text comes from untrusted clients, so
everything that grows with it (time, memory, stack) is bounded here, and anything larger is refused with a
`LanguageError` before it is built.
"""

from typing import Final

# Filter text. A generous hand-written filter is under 1 KiB; the cap keeps the parser's worst case below 0.1 s.
FILTER_TEXT_CHARS_MAX: Final = 64 * 1024

# Notification text. A notification of NOTIFICATION_ATTRIBUTES_MAX short attributes must fit.
NOTIFICATION_TEXT_CHARS_MAX: Final = 1024 * 1024

# Parentheses, braces and runs of `not`. A level takes up to a dozen stack frames, so this leaves most of Python's
# default stack to the caller.
NESTING_LEVELS_MAX: Final = 16

# Conjunctions of one filter. Each one costs a broker as much as a filter of its own.
DISJUNCTS_MAX: Final = 1024

# Predicates of one filter, over all its conjunctions, counted before duplicates are removed.
PREDICATES_MAX: Final = 4096

# Attributes of one notification.
NOTIFICATION_ATTRIBUTES_MAX: Final = 10_000

# Characters of a string, in a notification or a filter. A string is tested against thousands of substrings from
# filters; at this length that takes milliseconds.
STRING_CHARS_MAX: Final = 65_536

# Size of an integer. Python refuses to print far larger ones (4300 digits), so every value can be shown and parsed;
# and with a largest integer, every number but infinity has a next one, which makes the interval arithmetic exact.
INTEGER_BITS_MAX: Final = 8192
INTEGER_MAX: Final = 2**INTEGER_BITS_MAX - 1
INTEGER_DIGITS_MAX: Final = len(str(INTEGER_MAX))

# Candidate strings that one satisfiability question may try before it answers "unknown". Short constants need a
# handful; only bounds of a thousand characters and more come close.
STRING_CANDIDATES_MAX: Final = 1024

# Predicates that the candidates of one such question may be tested against, all together: about 2 ms.
STRING_TESTS_MAX: Final = 16_384

# Satisfiability questions that one `covers` between unions may ask before it falls back to the simpler, weaker test.
COVER_STEPS_MAX: Final = 512

# Predicates that one `covers` may look at, all together, before it answers "not proved": about 20 ms.
COVER_WORK_MAX: Final = 32_768
