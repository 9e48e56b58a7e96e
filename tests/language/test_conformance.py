"""The shared vectors of the PADRES language, where they are at hand.

A case not marked suspect agrees with PADRES, a suspect one with its `ideal`. Where this language
deliberately differs, the difference is one of the kinds named here; everything else must agree.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from octopia import LanguageError
from octopia.language import conforms, covers, matches, overlaps, parse_filter, parse_notification

VECTORS = Path(__file__).parents[3] / "shared" / "conformance" / "padres_language.jsonl"
CASES: list[dict[str, Any]] = (
    [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()] if VECTORS.exists() else []
)

VARIABLE = re.compile(r",\$[SIF]\$")
ACCEPTED_BEYOND_PADRES = re.compile(r"[0-9]e[0-9]|[0-9]{19,}")
CORRELATION = re.compile(r"\}\s*&\s*\{")
SEVERAL_PREDICATES = re.compile(r"\[(?!class)(\w+),[^\]]*,[^\]]*\].*\[\1,")

pytestmark = pytest.mark.skipif(not CASES, reason="the shared conformance vectors are not beside this checkout")


def _accepts(case: dict[str, Any]) -> bool:
    try:
        (parse_notification if case["what"] == "pub" else parse_filter)(case["text"])
    except LanguageError:
        return False
    return True


def _answer(case: dict[str, Any]) -> bool:
    match case["kind"]:
        case "match":
            return matches(case["sub"], case["pub"])
        case "intersect":
            return overlaps(case["adv"], case["sub"])
        case "conform":
            return conforms(case["pub"], case["adv"])
        case "cover":
            return covers(*case["cover"])
        case kind:
            assert kind == "parse"
            return _accepts(case)


def _expected(case: dict[str, Any]) -> bool:
    verdicts = {
        "match": "match",
        "intersect": "intersects",
        "conform": "conforms",
        "cover": "covers",
        "parse": "accepts",
    }
    return bool(case.get("ideal", case[verdicts[case["kind"]]]))


def _texts(case: dict[str, Any]) -> list[str]:
    return [*(case[key] for key in ("sub", "adv", "pub", "text") if key in case), *case.get("cover", [])]


def _has_variable(case: dict[str, Any]) -> bool:
    return any(VARIABLE.search(text) for text in _texts(case))


def _is_ours(case: dict[str, Any]) -> bool:
    """A text that PADRES refuses and we accept, or the reverse, on purpose."""
    if case["kind"] != "parse":
        return False
    beyond = (
        (ACCEPTED_BEYOND_PADRES,)
        if case["what"] == "pub"
        else (ACCEPTED_BEYOND_PADRES, CORRELATION, SEVERAL_PREDICATES)
    )
    return any(pattern.search(case["text"]) for pattern in beyond)


@pytest.mark.parametrize("kind", ["match", "intersect", "conform", "cover", "parse"])
def test_agrees_with_padres_or_with_the_ideal(kind: str) -> None:
    judged = [
        case
        for case in CASES
        if case["kind"] == kind
        and not _has_variable(case)
        and not _is_ours(case)
        and ("suspect" not in case or "ideal" in case)
    ]
    assert [case for case in judged if _answer(case) is not _expected(case)] == []
    assert judged


def _parse_all(case: dict[str, Any]) -> None:
    for text in _texts(case):
        is_notification = text == case.get("pub") or case.get("what") == "pub"
        (parse_notification if is_notification else parse_filter)(text)


def test_variables_are_refused() -> None:
    for case in filter(_has_variable, CASES):
        with pytest.raises(LanguageError, match="is a variable, and this language has none"):
            _parse_all(case)


def test_text_that_crashes_padres_is_accepted() -> None:
    undecided = [case for case in CASES if case["kind"] == "parse" and "suspect" in case and "ideal" not in case]
    assert [case["text"] for case in undecided if not _accepts(case)] == []


def test_what_we_take_and_padres_does_not() -> None:
    for case in (case for case in CASES if _is_ours(case)):
        assert _accepts(case) is not bool(CORRELATION.search(case["text"]))
