"""The error tree: one line that names the place, what was expected and the hint."""

import octopia


def test_language_error_says_place_expectation_and_hint_in_one_line() -> None:
    error = octopia.LanguageError(
        "unknown operator 'prefix'",
        text="[a,prefix,'x']",
        position=3,
        expected="an operator",
        hint="did you mean str-prefix?",
    )
    assert str(error) == "unknown operator 'prefix' at position 3; expected an operator (did you mean str-prefix?)"
    assert error.pointer() == "[a,prefix,'x']\n   ^"


def test_every_error_is_an_octopia_error() -> None:
    for name in octopia.__all__:
        value = getattr(octopia, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, octopia.OctopiaError)
