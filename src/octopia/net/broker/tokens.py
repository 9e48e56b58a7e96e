"""The sources of an overlay file's tokens: the file itself, another file, the environment, or only a digest.

    token = "…"                         # in the overlay file: protect it like a key
    token_file = "feed.token"           # the first line of this file; a relative path begins beside the overlay file
    token_env = "FEED_TOKEN"            # an environment variable of the broker's process
    token_sha256 = "9f86d0…"            # SHA-256 of the token in hex: printf %s TOKEN | sha256sum

Give one of the four. A token has at least 16 characters, so that it cannot be guessed; a digest cannot be checked.
"""

import os
import re
from typing import Any

from octopia.errors import InputError
from octopia.net.secret import HASHED, TOKEN_CHARS_MIN
from octopia.topology import TomlText
from octopia.wire import TOKEN_CHARS_MAX

_WAYS = ("", "_file", "_env", "_sha256")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


def token_keys(key: str) -> tuple[str, ...]:
    """The keys that may give a token."""
    return tuple(f"{key}{way}" for way in _WAYS)


class AccessTokens:
    """Reads the tokens of one file."""

    def __init__(self, text: TomlText, secrets: bool = True) -> None:
        self._text = text
        self._secrets = secrets

    def read(self, table: str, content: dict[str, Any], key: str, number: int = 0, *, spoken: bool = False) -> str:
        """A token in the form of `secret.py`; empty if there is none. `spoken`: the broker must send it to others."""
        given = [name for name in token_keys(key) if name in content]
        if not given:
            return ""
        name = given[0]
        if len(given) > 1:
            raise self._text.error(table, given[1], f"give {name} or {given[1]}, not both", number)
        value = self._text.typed(table, content, name, str, "text", "", number)
        if name.endswith("_sha256"):
            return self._digest(table, name, value, number, spoken)
        try:
            token = self._found(name, value)
        except InputError as error:
            if not self._secrets:
                # Different from every token that a client can send.
                return f"{HASHED}{table} {number}"
            raise self._text.error(table, name, str(error), number) from None
        problem = _problem(token)
        if problem:
            raise self._text.error(table, name, problem, number)
        return token

    def _digest(self, table: str, name: str, value: str, number: int, spoken: bool) -> str:
        if spoken:
            raise self._text.error(
                table, name, "a broker must know the token itself; use token_file or token_env", number
            )
        if not _DIGEST.fullmatch(value):
            raise self._text.error(table, name, "must be the 64 hex digits of a SHA-256", number)
        return f"{HASHED}{value.lower()}"

    def _found(self, name: str, value: str) -> str:
        if name.endswith("_env"):
            found = os.environ.get(value, "")
            if not found:
                raise InputError(f"the environment variable {value!r} is not set")
            return found
        if not name.endswith("_file"):
            return value
        file = self._text.file.parent / value
        try:
            with file.open(encoding="utf-8") as stream:
                return stream.readline(TOKEN_CHARS_MAX + 2).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _problem(token: str) -> str:
    if len(token) < TOKEN_CHARS_MIN:
        return (
            f"a token has at least {TOKEN_CHARS_MIN} characters, not {len(token)}; make one with: openssl rand -hex 16"
        )
    if len(token) > TOKEN_CHARS_MAX:
        return f"a token has at most {TOKEN_CHARS_MAX} characters"
    if token.startswith(HASHED):
        return f"a token must not begin with {HASHED}; for a digest there is token_sha256"
    return ""
