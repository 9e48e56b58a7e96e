"""SQL where-clauses: their compiled form, and the text of every error."""

import pytest

from octopia import LanguageError
from octopia.language import Filter, Operator, Predicate, parse_filter
from tests.language.cases import error_cases
from tests.language.sql_words import SQL_WORDS


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (
            "symbol = 'AAPL' and price between 10 and 20 or name like 'A%' and volume is not null",
            "name like 'A%' and volume is not null or price <= 20 and price >= 10 and symbol = 'AAPL'",
        ),
        ("A=1", "A = 1"),
        ("x != 1", "x <> 1"),
        ("10 < price", "price > 10"),
        ("10 >= price", "price <= 10"),
        ("'a' = x", "x = 'a'"),
        ("(x) = ((5))", "x = 5"),
        ("x = -5", "x = -5"),
        ("x = -(5)", "x = -5"),
        ("x = - 5 or x = -(-6)", "x = -5 or x = 6"),
        ("x = +5", "x = 5"),
        ("-5 < x", "x > -5"),
        ("x<-5 or x>-.5e-1", "x < -5 or x > -0.05"),
        ("x = 007 or x = 1E+2", "x = 7 or x = 100"),
        ("x = 1.50", "x = 1.5"),
        ("x = 1e3", "x = 1000"),
        ("x = .5 or x = 5.", "x = 0.5 or x = 5"),
        ("x < 9e999", "x < 9e999"),
        ("x = 123456789012345678901234567890", "x = 123456789012345678901234567890"),
        ("x = 'it''s'", "x = 'it''s'"),
        ("x = 'a; -- b /* c */ == &&'", "x = 'a; -- b /* c */ == &&'"),
        ("x in (1)", "x = 1"),
        ("(x) in ((1), -2, ('a'))", "x = -2 or x = 1 or x = 'a'"),
        ("x between (1) and ((2))", "x <= 2 and x >= 1"),
        ("x between 1 and 2 and y = 3", "x <= 2 and x >= 1 and y = 3"),
        ("x in (1, 'a', true)", "x = true or x = 1 or x = 'a'"),
        ("x not in (1, 2)", "x <> 1 and x <> 2"),
        ("x not between 1 and 2", "x < 1 or x > 2"),
        ("name between 'a' and 'b'", "name <= 'b' and name >= 'a'"),
        ("not (price > 10)", "price <= 10"),
        ("not not price > 10", "price > 10"),
        ("not (a = 1 and (b > 2 or c in (1, 2)))", "a <> 1 or b <= 2 and c <> 1 and c <> 2"),
        (
            "(a = 1 or b = 2) and (c = 3 or d = 4)",
            "a = 1 and c = 3 or a = 1 and d = 4 or b = 2 and c = 3 or b = 2 and d = 4",
        ),
        ("a = 1 and a = 1 or a = 1", "a = 1"),
        ("flag", "flag = true"),
        ("not flag", "flag = false"),
        ("flag and x = 1", "flag = true and x = 1"),
        ("flag = true", "flag = true"),
        ("true = flag", "flag = true"),
        ("not (flag = true)", "flag = false"),
        ("flag is false", "flag = false"),
        ("not (flag is not true)", "flag = true"),
        ("((flag)) and (not ((x)))", "flag = true and x = false"),
        ("true", "true"),
        ("not false", "true"),
        ("x = 1 or true", "true or x = 1"),
        ("price > 10 or false", "price > 10"),
        ("x = 1 or not true and y = 2", "x = 1"),
        ("exists x", "x is not null"),
        ('EXISTS(x) and exists ("a b")', '"a b" is not null and x is not null'),
        ("exists = 1", '"exists" = 1'),
        ("a > 1 xor b > 2", "a <= 1 and b > 2 or a > 1 and b <= 2"),
        ("not (a xor b)", "a = false and b = false or a = true and b = true"),
        (
            "a or b xor c and d",
            "a = true or b = false and c = true and d = true or b = true and c = false or b = true and d = false",
        ),
        ("x in (1, 2) xor true", "x <> 1 and x <> 2"),
        ("x is not null", "x is not null"),
        ("not (x is null)", "x is not null"),
        ("x like 'a'", "x = 'a'"),
        ("x like ''", "x = ''"),
        ("x like '%'", "x like '%'"),
        ("x like '%%'", "x like '%'"),
        ("x like '%a%'", "x like '%a%'"),
        ("x like '%%a'", "x like '%a'"),
        ("x like 'a%b'", "x like 'a%' and x like '%b'"),
        ("x not like 'a%b'", "x not like 'a%' or x not like '%b'"),
        ("not x not like 'a%'", "x like 'a%'"),
        ("x not like 'a'", "x <> 'a'"),
        ("x like '50!%%' escape '!'", "x like '50!%%' escape '!'"),
        ("x not like '%a\\_b' escape '\\'", "x not like '%a!_b' escape '!'"),
        ("x like 'a!!b' escape '!'", "x = 'a!b'"),
        (
            "class = 'S' and open > 1 and high > 1 and low > 1 and close > 1",
            "class = 'S' and close > 1 and high > 1 and low > 1 and open > 1",
        ),
        ("date = '1-Jan' and time = 1", "date = '1-Jan' and time = 1"),
        ('"openDiff%" > 0 and "a ""b""" = 1', '"a ""b""" = 1 and "openDiff%" > 0'),
        ("from = 1 and where = 2 or select", "from = 1 and where = 2 or select = true"),
        ("case = 1 or 'a' = date", "case = 1 or date = 'a'"),
        ("escape like 'a' escape '!'", "escape = 'a'"),
        ("exists exists and exists in (1) or exists", '"exists" = true or "exists" = 1 and "exists" is not null'),
        ("exists date and exists(time)", "date is not null and time is not null"),
        ('"and" = 1 and "NOT" or "Like" = 2', '"Like" = 2 or "NOT" = true and "and" = 1'),
        ("é > 1 and कीमत > 2", '"é" > 1 and "कीमत" > 2'),
        ("x\n=\t1\r\nor\ny = 2", "x = 1 or y = 2"),
        ("x\u00a0=\u20031", "x = 1"),
        ("x=1and y='a'or'b'=z", "x = 1 and y = 'a' or z = 'b'"),
        ("NOT x IN (1) AnD y Is NoT nUlL", "x <> 1 and y is not null"),
    ],
)
def test_compiles_to(text: str, canonical: str) -> None:
    assert str(parse_filter(text)) == canonical
    assert parse_filter(canonical) == parse_filter(text)


def test_every_word_of_sql_can_name_an_attribute() -> None:
    for word in [*SQL_WORDS, *map(str.upper, SQL_WORDS)]:
        for made in (
            Filter.of(Predicate(word, Operator.EQ, "a"), Predicate(word.lower(), Operator.PRESENT)),
            Filter.of(Predicate(word, Operator.NOT_PREFIX, "a"), Predicate("z", Operator.EQ, word)),
        ):
            assert parse_filter(str(made)) == made


RESERVED = "and between false in is like not null or true xor"


def test_few_words_need_quotes() -> None:
    for word in sorted({*SQL_WORDS} - {*RESERVED.split(), "exists"}):
        assert str(parse_filter(f"{word} = 1 and x <> 2 or {word} is not null or exists {word}"))
        assert str(Predicate(word, Operator.EQ, 1)) == f"{word} = 1"
    for word in RESERVED.split():
        with pytest.raises(LanguageError):
            parse_filter(f"{word} = 'a' and x = 1")
        assert str(Predicate(word.upper(), Operator.EQ, 1)) == f'"{word.upper()}" = 1'


USUAL_NAMES = "class symbol open high low close volume date time name value key type year order"


@pytest.mark.parametrize("word", USUAL_NAMES.split())
def test_the_usual_attribute_names_need_no_quotes(word: str) -> None:
    for condition, operator, value in (("= 'a'", "=", "a"), ("> 5", ">", 5), ("like 'a%'", "prefix", "a")):
        assert parse_filter(f"{word} {condition}") == Filter.of(Predicate(word, Operator(operator), value))
    assert parse_filter(f"x = 1 and {word} is not null and {word} between 1 and 2")


@pytest.mark.parametrize(("text", "message"), error_cases("sql_errors.txt"))
def test_errors(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_filter(text)
    assert str(caught.value) == message
    assert caught.value.text == text


@pytest.mark.parametrize("wrong", [None, 5, b"x = 1", ["x = 1"]])
def test_wrong_types_are_type_errors(wrong: object) -> None:
    with pytest.raises(TypeError, match="a filter is parsed from str"):
        parse_filter(wrong)  # type: ignore[arg-type]


def test_a_filter_passes_through() -> None:
    made = parse_filter("x = 1")
    assert parse_filter(made) is made


def test_errors_of_empty_text_and_of_later_lines() -> None:
    example = "expected something like [class,eq,'STOCK'],[price,>,10] or price > 10"
    for text, start in (
        ("", f"the filter text is empty at position 0; {example}"),
        (" \n", f"the filter text is empty at position 0; {example}"),
        ("x = 1 or\ny == 2", "unknown operator '==' at position 11; "),
        ("x = 1 or\r\n y z", "unexpected 'z' at position 13; "),
    ):
        with pytest.raises(LanguageError) as caught:
            parse_filter(text)
        assert str(caught.value).startswith(start)
