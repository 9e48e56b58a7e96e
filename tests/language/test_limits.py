"""Every bound is held, at its edge, with a clear error and nothing but LanguageError."""

import inspect
import sys

import pytest

from octopia import LanguageError
from octopia.language import (
    DISJUNCTS_MAX,
    FILTER_TEXT_CHARS_MAX,
    NESTING_LEVELS_MAX,
    NOTIFICATION_TEXT_CHARS_MAX,
    PREDICATES_MAX,
    STRING_CHARS_MAX,
    Conjunction,
    Filter,
    Operator,
    Predicate,
    covers,
    impossible,
    overlaps,
    parse_filter,
    parse_notification,
    pattern_count,
)
from octopia.language.filter import Terms
from octopia.language.sql_tree import Compiler, Tree

HINT = "(each 'or' and 'in' under an 'and' multiplies; split it into several subscriptions)"


def message(text: str) -> str:
    with pytest.raises(LanguageError) as caught:
        parse_filter(text)
    return str(caught.value)


def test_a_million_terms_are_refused_before_they_are_built() -> None:
    text = " and ".join(f"(a{i} = 1 or b{i} = 2)" for i in range(20))
    assert message(text) == f"the filter becomes 4608 predicates at position 0; expected at most 4096 {HINT}"
    hidden = "not (" + " or ".join(f"(a{i} = 1 and b{i} = 2)" for i in range(20)) + ")"
    assert message(hidden) == f"the filter becomes 4608 predicates at position 5; expected at most 4096 {HINT}"


def test_disjuncts() -> None:
    values = ", ".join(map(str, range(DISJUNCTS_MAX)))
    assert len(parse_filter(f"x in ({values})")) == DISJUNCTS_MAX
    assert (
        message(f"x in ({values}, -1)")
        == f"the filter becomes 1025 conjunctions at position 0; expected at most 1024 {HINT}"
    )
    for text, position in ((f"x in ({values}) or y = 1", 0), (f"z = 1 and (x in ({values}) or y = 1)", 11)):
        assert message(text) == (
            f"the filter becomes 1025 conjunctions at position {position}; expected at most 1024 {HINT}"
        )
    union = "{" + "||".join(f"{{[class,eq,c{i}]}}" for i in range(1025)) + "}"
    assert message(union) == f"the filter becomes 1025 conjunctions; expected at most 1024 {HINT}"
    with pytest.raises(LanguageError, match="1025 conjunctions"):
        Filter(Conjunction([Predicate("x", Operator.EQ, i)]) for i in range(1025))


def test_predicates() -> None:
    text = " and ".join(f"a{i} = 1" for i in range(PREDICATES_MAX))
    assert len(parse_filter(text).conjunctions[0]) == PREDICATES_MAX
    assert message(text + " and b = 1") == (
        f"the filter becomes 4097 predicates at position 0; expected at most 4096 {HINT}"
    )
    padres = "[class,eq,'A']" + ",[x,>,1]" * 4096
    assert message(padres) == f"the filter becomes 4097 predicates; expected at most 4096 {HINT}"


def test_text_length() -> None:
    assert message("x" * 10_000_000) == "the filter text has 10000000 characters; expected at most 65536"
    assert parse_filter("x = 1".ljust(FILTER_TEXT_CHARS_MAX))
    with pytest.raises(LanguageError) as caught:
        parse_notification("[" * (NOTIFICATION_TEXT_CHARS_MAX + 1))
    assert str(caught.value) == "the notification text has 1048577 characters; expected at most 1048576"


def test_nesting() -> None:
    deep = NESTING_LEVELS_MAX
    assert parse_filter("(" * deep + "x = 1" + ")" * deep) == parse_filter("x = 1")
    assert parse_filter("(not " * (deep // 2) + "x = 1" + ")" * (deep // 2)) == parse_filter("x = 1")
    assert parse_filter("{" * (deep + 1) + "[class,eq,A]" + "}" * (deep + 1)) == parse_filter("class = 'A'")
    assert message("(" * 10_000 + "x = 1" + ")" * 10_000) == (
        "the condition is nested too deeply at position 16; expected at most 16 levels"
    )
    assert (
        message("not " * 10_000 + "x")
        == "the condition is nested too deeply at position 64; expected at most 16 levels"
    )
    assert message("{" * 10_000) == "braces are nested deeper than 16 levels at position 18"


@pytest.mark.parametrize(
    "text",
    [
        *("x = case " * 7000, "a between " * 6500, "- " * 30_000, "interval " * 7000, "a = " * 16_000),
        *("'" * 65_535, "array<" * 10_000, "a." * 30_000, "f(" * 16, "x -> " * 12_000, "select " * 9000),
        *("a in " * 12_000, "9" * 65_000, "[class,eq," * 6000, "[" * 65_000, "{" * 65_000, "x" * 65_000 + "="),
        *("x = " + "9" * 60_000, "not(- " * 10_000, "x = '" + "''" * 32_000, '"' * 65_535, "x = " + "-(" * 32_000),
        *("x like '" + "%a" * 32_000 + "'", "x like '" + "a" * 32_000 + "b%" + "a" * 32_000 + "b'"),
        *("x in (" + "1, " * 20_000, "x in (" * 10_000, "x == " * 13_000, "1 < " * 16_000, "exists " * 9000),
        *(
            "x = 1 xor " * 6000 + "y = 2",
            "x = " + "0" * 65_000 + "e",
            "x = 1 or " * 7000 + "y = 2",
            "(" * 16 + "x" * 60_000,
        ),
    ],
    ids=lambda text: str(text)[:10],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(LanguageError):
        parse_filter(text)


def test_a_caller_deep_in_the_stack_gets_a_language_error() -> None:
    def descend(levels: int) -> None:
        if levels:
            descend(levels - 1)
        else:
            parse_filter("((((((((((x = 1))))))))))")

    with pytest.raises(LanguageError, match="nested too deeply"):
        descend(sys.getrecursionlimit() - len(inspect.stack()) - 40)


def test_nested_xor_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `xor` needs its parts and their negations; from level to level the work must not double."""
    asked: list[object] = []
    terms = Compiler.terms

    def counted(compiler: Compiler, tree: Tree, negated: bool) -> Terms:
        asked.append(tree)
        return terms(compiler, tree, negated)

    monkeypatch.setattr(Compiler, "terms", counted)
    text = "(" * NESTING_LEVELS_MAX + "x = 1" + " xor true and true)" * NESTING_LEVELS_MAX
    assert parse_filter(text) == parse_filter("x = 1")
    assert len(asked) < 12 * NESTING_LEVELS_MAX


def test_a_long_chain_of_xor_with_constants() -> None:
    values = ", ".join(map(str, range(DISJUNCTS_MAX)))
    assert parse_filter(f"x in ({values})" + " xor true xor false" * 3000) == parse_filter(f"x in ({values})")
    assert parse_filter(f"x in ({values})" + " xor true" * 5001) == parse_filter(f"x not in ({values})")


def test_integers() -> None:
    largest = 2**8192 - 1
    assert parse_filter(f"x = {largest}") == Filter.of(Predicate("x", Operator.EQ, largest))
    assert (
        message(f"x = {largest + 1}") == "the number 10907481356194159294… (2467 characters) is too large at position 4"
    )
    assert (
        message(f"x = -{largest + 1}")
        == "the number 10907481356194159294… (2467 characters) is too large at position 5"
    )
    assert message("[class,eq,A],[x,=," + "9" * 5000 + "]") == (
        "the number 99999999999999999999… (5000 characters) is too large at position 18"
    )


def test_huge_constants_answer_on_the_safe_side() -> None:
    last = "\U0010ffff" * 20_000
    narrow = parse_filter(f"x > '{last}' and x not like '%b%' and x not like '%c%'")
    assert overlaps(narrow, narrow)
    thick = Filter.of(*(Predicate("x", Operator.NOT_CONTAINS, f"{i}") for i in range(3000)))
    assert overlaps(thick, thick)
    assert covers(thick, thick)


def test_a_string_of_any_length_is_not_taken() -> None:
    longest = "x" * STRING_CHARS_MAX
    assert parse_notification({"s": longest})["s"] == longest
    for refused in (
        lambda: parse_notification({"s": longest + "x"}),
        lambda: Predicate("s", Operator.EQ, longest + "x"),
    ):
        with pytest.raises(LanguageError, match="is a string of 65537 characters; expected at most 65536"):
            refused()


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("a = 'x' and b <> 'y' and c in (1, 2) and d > 1.5 and e is not null and f = true", 0),
        ("a like 'x%' or a like '%x' or a like '%x%' or a not like '%x%' or a < 'm'", 5),
        (f"a like '%{'x' * 64}%' or b like '{'x' * 65}%'", 3),
        (f"n > {2**53} or n = {-(2**60)} or n < {2**53 - 1}", 2),
    ],
)
def test_patterns_are_counted(text: str, patterns: int) -> None:
    assert pattern_count(parse_filter(text)) == patterns


def test_covering_a_filter_of_very_many_parts_ends() -> None:
    """Not proved after so many predicates; before, the same took seconds for a few hundred parts."""
    parts = [f"x > {n} and x < {n}.5" for n in range(400)]
    many, more = parse_filter(" or ".join(parts)), parse_filter(" or ".join([*parts, "y > 1"]))
    assert covers(many, many)
    assert not covers(many, more)
    listed, longer = parse_filter(f"x in ({', '.join(map(str, range(1000)))})"), parse_filter("x in (1, 7, 999)")
    assert covers(listed, longer)
    assert not covers(longer, listed)


def test_many_values_left_out_are_no_search() -> None:
    left_out = [Predicate("x", Operator.NE, value) for value in range(4000)]
    assert not impossible([Predicate("x", Operator.GE, 0), *left_out])
    assert impossible([Predicate("x", Operator.EQ, 7), *left_out])
