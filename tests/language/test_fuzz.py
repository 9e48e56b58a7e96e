"""Whatever the text, nothing but LanguageError leaves, in one line and with a place inside the text."""

from hypothesis import given
from hypothesis import strategies as st

from octopia import LanguageError
from octopia.language import parse_filter, parse_notification
from tests.language.sql_words import SQL_WORDS
from tests.language.strategies import fixed

SQL_SIGNS = [*"!#$%&()*+,-./:;<=>?@[]^_`{|}~\\", "--", "/*", "::", "->", "||", "<=>", "==", "‘", "≠"]
SQL_PIECES = st.one_of(
    st.sampled_from(
        ["x", "price", "'a'", "'A%'", "1", "1.5", "-1", "true", "null", '"q"', "'", '"', "\n", "\0", "$S$x"]
    ),
    st.sampled_from(["and", "or", "not", "in", "between", "like", "is", "escape", "(", ")", ",", "=", "<>", "<", ">="]),
    st.sampled_from(SQL_WORDS + SQL_SIGNS),
)
PADRES_WORDS = """[ ] { } , ; : & || class eq neq str-lt str-prefix isPresent = < <> == x 'a' "b" ' " 5 -5 .5 5. 1e5
    007 true $S$x $I$y [class,eq,'A'] [class,'A'] [x,>,5] [x,5] Sat é % @"""
PADRES_PIECES = st.sampled_from([*PADRES_WORDS.split(), " ", "\n", "Sat Jul 08 18:38:47 EDT 2006"])
GLUE = st.sampled_from(["", " "])


def _joined(pieces: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda glue, parts: glue.join(parts), GLUE, st.lists(pieces, max_size=14))


ANYTHING = st.one_of(
    st.text(max_size=30), st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)


def _swallow(text: str) -> None:
    for parse in (_round_trip, parse_notification):
        try:
            parse(text)
        except LanguageError as error:
            _check_error(text, error)


def _round_trip(text: str) -> None:
    made = parse_filter(text)
    assert parse_filter(str(made)) == made


def _check_error(text: str, error: LanguageError) -> None:
    assert len(str(error).splitlines()) == 1
    assert error.text in (text, None)
    assert error.position is None or 0 <= error.position <= len(text)


@fixed(3000)
@given(_joined(SQL_PIECES))
def test_sql_soup(text: str) -> None:
    _swallow(text)


@fixed(2000)
@given(_joined(PADRES_PIECES))
def test_padres_soup(text: str) -> None:
    _swallow(text)
    _swallow("[class,eq,'A']," + text)
    _swallow("[class,'A']," + text)


@fixed(1000)
@given(ANYTHING)
def test_any_text(text: str) -> None:
    _swallow(text)
    _swallow(f"x = '{text}'")
    _swallow(f"[class,eq,'{text}']")


@fixed(500)
@given(st.text("()", max_size=40), st.text("()", max_size=40))
def test_parentheses(before: str, after: str) -> None:
    _swallow(f"{before}x = 1{after}")
