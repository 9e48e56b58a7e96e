"""PADRES text: accepted forms and their meaning, and the text of every error."""

from math import inf

import pytest

from octopia import LanguageError
from octopia.language import (
    Filter,
    Notification,
    Operator,
    Predicate,
    Value,
    parse_filter,
    parse_notification,
    to_padres,
)
from tests.language.cases import error_cases

A = "[class,eq,'A']"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        (A, "class = 'A'"),
        ("[class,eq,A]", "class = 'A'"),
        ('[class,eq,"A"]', "class = 'A'"),
        (" [ class,eq,\t'A'\n]\r", "class = 'A'"),
        (f"{A},[x,>,-5]", "class = 'A' and x > -5"),
        (f"{A},[x,<=,+5]", "class = 'A' and x <= 5"),
        (f"{A},[x,=,.5]", "class = 'A' and x = 0.5"),
        (f"{A},[x,=,-.5]", "class = 'A' and x = -0.5"),
        (f"{A},[x,=,0]", "class = 'A' and x = 0"),
        (f"{A},[x,=,-0]", "class = 'A' and x = 0"),
        (f"{A},[x,<>,1e5]", "class = 'A' and x <> 100000"),
        (f"{A},[x,>=,1.5e3]", "class = 'A' and x >= 1500"),
        (f"{A},[x,<,1E-7]", "class = 'A' and x < 1e-07"),
        (f"{A},[x,<,9e999]", "class = 'A' and x < 9e999"),
        (f"{A},[x,=,99999999999999999999]", "class = 'A' and x = 99999999999999999999"),
        (f"{A},[x,>,5],[x,<,10]", "class = 'A' and x < 10 and x > 5"),
        (f"{A},[x,>,5],[X,<,10]", "X < 10 and class = 'A' and x > 5"),
        (f"{A},[x,eq,'']", "class = 'A' and x = ''"),
        (f"{A},[x,eq,b-c]", "class = 'A' and x = 'b-c'"),
        (f"{A},[x,eq,/a:b]", "class = 'A' and x = '/a:b'"),
        (f"{A},[x,eq,true]", "class = 'A' and x = 'true'"),
        (f"{A},[x,=,true]", "class = 'A' and x = true"),
        (f"{A},[x,<>,false]", "class = 'A' and x <> false"),
        (f"{A},[x,eq,'a@b.c (50%) + ~x\\y']", "class = 'A' and x = 'a@b.c (50%) + ~x\\y'"),
        (f'{A},[x,eq,"it\'s"]', "class = 'A' and x = 'it''s'"),
        (f"{A},[x,eq,'say \"é\"']", "class = 'A' and x = 'say \"é\"'"),
        (f"{A},[x,eq,'$S$v']", "class = 'A' and x = '$S$v'"),
        (f"{A},[x,eq,'[a],{{b}};']", "class = 'A' and x = '[a],{b};'"),
        (f"{A},[x,neq,'a']", "class = 'A' and x <> 'a'"),
        (f"{A},[x,str-lt,'a']", "class = 'A' and x < 'a'"),
        (f"{A},[x,str-le,'a']", "class = 'A' and x <= 'a'"),
        (f"{A},[x,str-gt,'a']", "class = 'A' and x > 'a'"),
        (f"{A},[x,str-ge,'a']", "class = 'A' and x >= 'a'"),
        (f"{A},[x,str-prefix,'a']", "class = 'A' and x like 'a%'"),
        (f"{A},[x,str-postfix,'a']", "class = 'A' and x like '%a'"),
        (f"{A},[x,str-contains,'a']", "class = 'A' and x like '%a%'"),
        (f"{A},[x,str-not-prefix,'a']", "class = 'A' and x not like 'a%'"),
        (f"{A},[x,str-not-postfix,'a']", "class = 'A' and x not like '%a'"),
        (f"{A},[x,str-not-contains,'a']", "class = 'A' and x not like '%a%'"),
        (f"{A},[x,isPresent,0]", "class = 'A' and x is not null"),
        (f"{A},[x,isPresent,'any']", "class = 'A' and x is not null"),
        (f"{A},[x,isPresent,any]", "class = 'A' and x is not null"),
        (f"{A},[str-not-prefix,>,1]", "class = 'A' and \"str-not-prefix\" > 1"),
        (f"{A},[openDiff%,>,1]", "class = 'A' and \"openDiff%\" > 1"),
        (f"{A},[classy,eq,equal]", "class = 'A' and classy = 'equal'"),
        (f"{A};garbage @ (", "class = 'A'"),
        (f"{A} ; x", "class = 'A'"),
        ("{{[class,eq,'A']}}", "class = 'A'"),
        ("{{{[class,eq,'A']}}}", "class = 'A'"),
        ("{{[class,eq,'A'],[x,>,1]}||{[class,eq,'B']}}", "class = 'A' and x > 1 or class = 'B'"),
        ("{{[class,eq,A]}||{{[class,eq,B]}||{[class,eq,C]}}};", "class = 'A' or class = 'B' or class = 'C'"),
    ],
)
def test_filter_text_says_the_same_as_sql(text: str, sql: str) -> None:
    assert parse_filter(text) == parse_filter(sql)
    assert str(parse_filter(text)) == sql


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[class,'A']", {"class": "A"}),
        ("[class,A],[x,5]", {"class": "A", "x": 5}),
        ("[class,'A'],[x,5.0],[y,-.5],[z,1e3]", {"class": "A", "x": 5.0, "y": -0.5, "z": 1000.0}),
        ("[class,'A'],[x,abc],[y,true],[z,'']", {"class": "A", "x": "abc", "y": "true", "z": ""}),
        ("[class,'A'],[x,99999999999999999999]", {"class": "A", "x": 99999999999999999999}),
        ("[class,'A'],[x,9e999],[y,-9e999]", {"class": "A", "x": inf, "y": -inf}),
        ("[class,'A'],[x,'$S$v'],[tid,'z']", {"class": "A", "x": "$S$v", "tid": "z"}),
        ("[class,'A'],[x,1];", {"class": "A", "x": 1}),
        ("[class,'A'],[x,1];Sat Jul 08 18:38:47 EDT 2006", {"class": "A", "x": 1}),
        ("[class,'A'],[x,1];Sat Jul  8 18:38:47 EDT 2006;", {"class": "A", "x": 1}),
        ("[class,'A'],[x,1];Sat Jul 08 18: 38: 47  eastern daylight time  2006", {"class": "A", "x": 1}),
        ("[class,'A'],[x,1]; Saturday July 8 18:38:47 UTC 2006 ; more", {"class": "A", "x": 1}),
        ("[class,'A'],[x,1];garbage", {"class": "A", "x": 1}),
        ("[class,'A'],[x,1];@(", {"class": "A", "x": 1}),
    ],
)
def test_notification_text(text: str, values: dict[str, Value]) -> None:
    assert parse_notification(text) == Notification.of(values)
    assert {name: type(value) for name, value in parse_notification(text).items()} == {
        name: type(value) for name, value in values.items()
    }


@pytest.mark.parametrize(("text", "message"), error_cases("padres_filter_errors.txt"))
def test_filter_errors(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_filter(text)
    assert str(caught.value) == message
    assert caught.value.text == text


@pytest.mark.parametrize(("text", "message"), error_cases("padres_notification_errors.txt"))
def test_notification_errors(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_notification(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Filter.of(Predicate("class", Operator.EQ, "A")), "[class,eq,'A']"),
        (parse_filter("class = 'A' and x is not null and b = true"), "[class,eq,'A'],[b,=,true],[x,isPresent,'']"),
        (parse_filter("class = 'it''s' and x < -9e999"), '[class,eq,"it\'s"],[x,<,-9e999]'),
        (
            parse_filter("class in ('A','B') and x not like '%c'"),
            "{{[class,eq,'A'],[x,str-not-postfix,'c']}||{[class,eq,'B'],[x,str-not-postfix,'c']}}",
        ),
        (Notification.of({"x": 1e-7, "class": "A"}), "[class,'A'],[x,1e-07]"),
    ],
)
def test_to_padres(made: Filter | Notification, text: str) -> None:
    assert to_padres(made) == text
    assert (parse_filter(text) if isinstance(made, Filter) else parse_notification(text)) == made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            parse_filter("x > 1"),
            "'x > 1' has no PADRES form; expected exactly one condition on class, such as class = 'STOCK'",
        ),
        (
            parse_filter("class > 'A'"),
            "'class > 'A'' has no PADRES form; expected exactly one condition on class, such as class = 'STOCK'",
        ),
        (
            parse_filter("class = 'A' and \"a b\" > 1"),
            "'a b' has no PADRES form; expected a name of letters, digits and _ - : / % that starts with no digit",
        ),
        (
            parse_filter("class = 'A' and eq > 1"),
            "'eq' is a word of the PADRES form and cannot be the name of a further attribute",
        ),
        (
            parse_filter("class = 'it''s \"x\"'"),
            "the value of 'class' has both kinds of quote, for which there is no PADRES form",
        ),
        (Notification.of({"class": "A", "x": True}), "'x' is a boolean, which a PADRES notification cannot carry"),
        (Notification.of({"x": 1}), "the notification has no PADRES form; expected a string as its 'class'"),
    ],
)
def test_to_padres_refuses_what_the_form_cannot_say(made: Filter | Notification, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        to_padres(made)
    assert str(caught.value) == message


def test_an_empty_notification_text() -> None:
    with pytest.raises(LanguageError) as caught:
        parse_notification("")
    assert str(caught.value) == (
        "the notification text is empty at position 0; expected something like [class,'STOCK'],[price,10]"
    )
