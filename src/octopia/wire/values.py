"""Values and filters in MessagePack.

Strings, booleans, 64-bit integers and floats are MessagePack's own. The language has integers of up to 8,192 bits;
those that 64 bits cannot hold travel as extension type 1, two's complement, most significant byte first. A filter is an
array of conjunctions, a conjunction an array of `[attribute, operator, value]`; operators have numbers of their own
here, which never change. Checks that a decoder's type can make (lengths, kinds, NaN) run before anything is built.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.msgpack import Decoder, Ext

from octopia.errors import LanguageError, RemoteProtocolError
from octopia.language import (
    DISJUNCTS_MAX,
    FILTER_TEXT_CHARS_MAX,
    PATTERN_CHARS,
    PREDICATES_MAX,
    STRING_CHARS_MAX,
    Conjunction,
    Filter,
    Operator,
    Predicate,
    Value,
    parse_filter,
    pattern_count,
    unequal_count,
)
from octopia.wire.limits import INTEGER_BYTES_MAX, WireLimits

BIG_INTEGER: Final = 1
INT64_MIN: Final = -(2**63)
UINT64_MAX: Final = 2**64 - 1
_FLOAT_MAX: Final = 1.7976931348623157e308

# NaN fails both comparisons. So do the infinities, which the slow path then accepts.
Finite = Annotated[float, Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)]
PlainValue: TypeAlias = Annotated[str, Meta(max_length=STRING_CHARS_MAX)] | int | Finite | bool
AnyValue: TypeAlias = str | int | float | bool | Ext

OPERATOR_CODES: Final[dict[Operator, int]] = {
    Operator.EQ: 0,
    Operator.NE: 1,
    Operator.LT: 2,
    Operator.LE: 3,
    Operator.GT: 4,
    Operator.GE: 5,
    Operator.PREFIX: 6,
    Operator.POSTFIX: 7,
    Operator.CONTAINS: 8,
    Operator.NOT_PREFIX: 9,
    Operator.NOT_POSTFIX: 10,
    Operator.NOT_CONTAINS: 11,
    Operator.PRESENT: 12,
}
_OPERATORS: Final = {code: operator for operator, code in OPERATOR_CODES.items()}

WirePredicate: TypeAlias = tuple[str, int, str | int | float | bool | Ext | None]
WireFilter: TypeAlias = list[list[WirePredicate]]


def filter_type(limits: WireLimits) -> Any:
    """The type that a filter is decoded as: text, or conjunctions, within the bounds of the language.

    `filter_in` checks narrower limits: a filter past them is refused, but is not a protocol violation.
    """
    text = Annotated[str, Meta(max_length=FILTER_TEXT_CHARS_MAX)]
    conjunction = Annotated[list[WirePredicate], Meta(max_length=PREDICATES_MAX)]
    return text | Annotated[list[conjunction], Meta(min_length=1, max_length=DISJUNCTS_MAX)]


def array_decoder(*parts: Any) -> Callable[[bytes], Any]:
    """The decoder of an array with exactly these parts, whose types depend on limits."""
    return Decoder(tuple.__class_getitem__(parts)).decode


def value_out(value: Value) -> str | int | float | bool | Ext:
    """A value as MessagePack can carry it."""
    if type(value) is int and not INT64_MIN <= value <= UINT64_MAX:
        return Ext(BIG_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


def value_in(value: str | int | float | bool | Ext) -> Value:
    """A value from MessagePack; the language's own checks come after."""
    if not isinstance(value, Ext):
        return value
    if value.code != BIG_INTEGER:
        raise RemoteProtocolError(
            f"a value of extension type {value.code}; only {BIG_INTEGER}, a long integer, is known"
        )
    data = bytes(value.data)
    if not 0 < len(data) <= INTEGER_BYTES_MAX:
        raise RemoteProtocolError(f"an integer of {len(data)} bytes; 1 to {INTEGER_BYTES_MAX} are allowed")
    return int.from_bytes(data, "big", signed=True)


def filter_out(filter: Filter) -> WireFilter:
    """A filter in wire form."""
    return [
        [
            (p.attribute, OPERATOR_CODES[p.operator], None if p.value is None else value_out(p.value))
            for p in conjunction.predicates
        ]
        for conjunction in filter.conjunctions
    ]


def filter_in(given: str | WireFilter, limits: WireLimits) -> Filter:
    """The filter that a peer sent, as text or structure. `LanguageError` if invalid: a refusal, not a violation."""
    if isinstance(given, str):
        _check("characters of text", len(given), limits.filter_text_chars_max, "send it in structure")
        parsed = parse_filter(given)
    else:
        # counted before anything is built
        _check("conjunctions", len(given), limits.conjunctions_max, _SPLIT)
        _check("predicates", sum(map(len, given)), limits.predicates_max, _SPLIT)
        parsed = Filter(Conjunction([_predicate(*parts) for parts in conjunction]) for conjunction in given)
    _check("conjunctions", len(parsed), limits.conjunctions_max, _SPLIT)
    _check("predicates", sum(map(len, parsed.conjunctions)), limits.predicates_max, _SPLIT)
    patterns = f"conditions on parts or order of strings (one for each {PATTERN_CHARS} characters) or huge numbers"
    _check(patterns, pattern_count(parsed), limits.patterns_max, _SPLIT)
    _check("conjunctions with '<>'", unequal_count(parsed), limits.patterns_max, _SPLIT)
    return parsed


_SPLIT: Final = "split the filter into several, or raise the broker's limit"


def _check(what: str, count: int, most: int, remedy: str) -> None:
    if count > most:
        raise LanguageError(f"the filter has {count} {what}", expected=f"at most {most}", hint=remedy)


def _predicate(attribute: str, code: int, value: str | int | float | bool | Ext | None) -> Predicate:
    operator = _OPERATORS.get(code)
    if operator is None:
        raise RemoteProtocolError(
            f"a predicate on {attribute!r} has operator {code}; 0 to {len(_OPERATORS) - 1} are known"
        )
    try:
        return Predicate(attribute, operator, None if value is None else value_in(value))
    except TypeError as error:
        raise LanguageError(str(error)) from None


def msgpack_text(text: str) -> bytes:
    """A string in wire form."""
    return ENCODER.encode(text)


ENCODER: Final = msgspec.msgpack.Encoder()
