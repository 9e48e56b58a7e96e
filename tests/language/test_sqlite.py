"""SQL semantics against SQLite, which shares no code with us: the same where-clause over the same rows.

Attributes become columns and absence becomes null. Types agree within a column, because SQLite orders values of
different types where this language lets no predicate hold; booleans are left out, because SQLite has none.
"""

import re
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.language import Value, matches, parse_filter
from tests.language.strategies import fixed

NUMBERS = st.sampled_from(["-1", "0", "0.5", "1", "1.0", "2", "1e3", "9007199254740993", "9007199254740992.0"])
STRINGS = st.sampled_from(["", "a", "b", "ab", "ba", "abc", "A", "it''s", "50%", "é", "\U0001f40d"]).map("'{}'".format)
PATTERNS = st.sampled_from(["a", "a%", "%a", "%a%", "a%b", "%", "", "%it''s%", "a%c", "A%"]).map("'{}'".format)
COMPARISON = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
NOT = st.sampled_from(["", "not "])


def _leaves(columns: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    name = st.sampled_from(columns)
    return st.one_of(
        st.builds("{} {} {}".format, name, COMPARISON, values),
        st.builds("{} {} {}".format, values, COMPARISON, name),
        st.builds("{} {}between {} and {}".format, name, NOT, values, values),
        st.builds("{} {}in ({})".format, name, NOT, st.lists(values, min_size=1, max_size=3).map(", ".join)),
    )


LEAF = st.one_of(
    _leaves(["n", "m"], NUMBERS),
    _leaves(["s", "t"], STRINGS),
    st.builds("{} {}like {}".format, st.sampled_from(["s", "t"]), NOT, PATTERNS),
)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
        st.builds("({}) xor ({})".format, inner, inner),
        st.builds("not ({})".format, inner),
    )


NEGATABLE = st.one_of(
    st.recursive(LEAF, _combined, max_leaves=8),
    st.builds("{} and {} or not {} and {} or {}".format, LEAF, LEAF, LEAF, LEAF, LEAF),
)
# Presence is the one condition that cannot be negated, so it is joined from outside.
PRESENCE = st.one_of(
    st.builds(str.format, st.sampled_from(["{} is not null", "exists {}", "EXISTS({})"]), st.sampled_from("nmst"))
)
CONDITIONS = st.one_of(
    NEGATABLE,
    PRESENCE,
    st.builds("({}) and {}".format, NEGATABLE, PRESENCE),
    st.builds("{} or ({})".format, PRESENCE, NEGATABLE),
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["n", "m"], st.sampled_from([-1, 0, 0.5, 1, 1.5, 2, 1000, 2**53, 2**53 + 1, 2.0**53])),
        **dict.fromkeys(["s", "t"], st.sampled_from(["", "a", "ab", "abc", "ba", "B", "it's", "50%", "é", "\uffff"])),
    },
).filter(bool)


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("pragma case_sensitive_like = on")
    connection.execute("create table row (n, m, s, t)")
    yield connection
    connection.close()


@fixed(800)
@given(condition=CONDITIONS, rows=st.lists(ROWS, min_size=1, max_size=8))
def test_matches_the_rows_that_sqlite_selects(
    database: sqlite3.Connection, condition: str, rows: list[dict[str, Value]]
) -> None:
    made = parse_filter(condition)
    database.execute("delete from row")
    database.executemany(
        "insert into row (rowid, n, m, s, t) values (?, ?, ?, ?, ?)",
        [(index, *(row.get(column) for column in "nmst")) for index, row in enumerate(rows)],
    )
    # SQLite has neither word, but its conditions are numbers: unequal ones are an xor, unknown where either is.
    theirs = re.sub(r"exists\W(\w)\)?", r"\1 is not null", condition, flags=re.IGNORECASE).replace(" xor ", " <> ")
    selected = {index for (index,) in database.execute(f"select rowid from row where {theirs}")}  # noqa: S608
    assert {index for index, row in enumerate(rows) if matches(made, row)} == selected
