"""Text and values are two forms of one thing: printed text parses back to an equal value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia import LanguageError
from octopia.language import (
    Conjunction,
    Filter,
    Notification,
    Operator,
    Predicate,
    parse_filter,
    parse_notification,
    to_padres,
)
from tests.language.strategies import any_filter, any_number, any_string, filters, fixed, notifications, predicates

padres_names = st.from_regex(r"[A-Za-z_/][A-Za-z0-9_\-:/%]{0,5}", fullmatch=True).filter(
    lambda name: name not in ("eq", "neq", "class")
)
padres_strings = any_string.filter(lambda text: not ("'" in text and '"' in text))
padres_filter = st.builds(
    lambda made, name: Filter(Conjunction([*c, Predicate("class", Operator.EQ, name)]) for c in made),
    filters(predicates(padres_names, padres_strings, any_number), 3, 3),
    padres_strings,
)


@fixed(500)
@given(any_filter)
def test_sql_text_parses_back(made: Filter) -> None:
    assert parse_filter(str(made)) == made
    assert str(parse_filter(str(made))) == str(made)


@fixed(300)
@given(padres_filter)
def test_padres_text_parses_back(made: Filter) -> None:
    assert parse_filter(to_padres(made)) == made


@fixed(300)
@given(notifications)
def test_notification_text_parses_back_where_there_is_one(made: Notification) -> None:
    try:
        text = to_padres(made)
    except LanguageError:
        assert str(made)
        return
    assert parse_notification(text) == made
    assert str(made) == text


@pytest.mark.parametrize("count", [1, 2, 5])
def test_reordered_text_gives_equal_filters(count: int) -> None:
    parts = [f"(x{i} = 1 and y > {i})" for i in range(count)]
    forward, backward = parse_filter(" or ".join(parts)), parse_filter(" or ".join(reversed(parts)))
    assert forward == backward
    assert hash(forward) == hash(backward)
    assert str(forward) == str(backward)
