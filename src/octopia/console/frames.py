"""Frames of the WebSocket client protocol: JSON objects with a `type`. docs/reference/websocket.md is the manual.

This file holds the frames a browser may send, how they are read, and how answers are written. It knows no socket and no
broker. Unknown types and unknown fields are errors, so that a typo is reported and not ignored.
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from octopia.errors import InputError, LanguageError, OctopiaError, RefusedError, UnreachableError

VERSION: Final = 1
FRAME_BYTES_MAX: Final = 1024 * 1024
CREDIT_DEFAULT: Final = 100
CREDIT_MAX: Final = 100_000

Id: TypeAlias = Annotated[str, Meta(max_length=200)]
Credit: TypeAlias = Annotated[int, Meta(ge=0, le=CREDIT_MAX)]
Rate: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]


class _Frame(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, kw_only=True):
    """Any frame. `id` is the browser's own; the answer has the same. Without one, only errors are answered."""

    id: Id = ""


class Hello(_Frame, frozen=True, tag="hello"):
    """The first frame: identifies the client. Without a token, the console's own credentials are used."""

    version: int = VERSION
    name: str = ""
    token: str = ""


class Advertise(_Frame, frozen=True, tag="advertise"):
    filter: str


class Unadvertise(_Frame, frozen=True, tag="unadvertise"):
    advertisement: str


class Subscribe(_Frame, frozen=True, tag="subscribe"):
    """`credit`: how many notifications may be sent before more is granted. `rate_max`: the excess is skipped."""

    filter: str
    policy: str | None = None
    ordered: bool = True
    priority: int | None = None
    deadline_ms: int | None = None
    credit: Credit = CREDIT_DEFAULT
    rate_max: Rate | None = None


class Unsubscribe(_Frame, frozen=True, tag="unsubscribe"):
    subscription: str


class Grant(_Frame, frozen=True, tag="credit"):
    """More notifications may be sent."""

    subscription: str
    add: Credit


class SetRate(_Frame, frozen=True, tag="rate"):
    """Another rate cap for a subscription: 0 pauses it, null removes the cap."""

    subscription: str
    rate_max: Rate | None


class Publish(_Frame, frozen=True, tag="publish"):
    notification: dict[str, Any]


class Flush(_Frame, frozen=True, tag="flush"):
    """Answered when brokers have routed everything published before, or with the first refusal."""


Frame: TypeAlias = (
    Hello | Advertise | Unadvertise | Subscribe | Unsubscribe | Grant | SetRate | Publish | Flush
)  # fmt: skip
# Carried out at once; all other frames are requests, carried out one after the other.
Immediate: TypeAlias = Grant | SetRate

_decoder: Final = msgspec.json.Decoder(Frame)
_encoder: Final = msgspec.json.Encoder()


class FrameError(InputError):
    """An invalid frame."""


def read_frame(text: str | bytes) -> Frame:
    """The frame in this text."""
    try:
        frame: Frame = _decoder.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FrameError(f"not a frame: {error}") from None
    return frame


def write(kind: str, /, **fields: Any) -> str:
    """A frame for the browser, without the fields that are None."""
    content = {"type": kind} | {name: value for name, value in fields.items() if value is not None}
    return _encoder.encode(content).decode()


def failure(error: Exception) -> dict[str, Any]:
    """The description of an error: a code for programs, the message, and its position in the text."""
    told: dict[str, Any] = {"code": _code(error), "message": str(error)}
    if isinstance(error, LanguageError):
        told |= {"position": error.position, "expected": error.expected, "hint": error.hint, "problem": error.problem}
    return {name: value for name, value in told.items() if value is not None}


def _code(error: Exception) -> str:
    if isinstance(error, FrameError):
        return "bad_frame"
    if isinstance(error, LanguageError):
        return "language"
    if isinstance(error, RefusedError):
        return "refused"
    if isinstance(error, UnreachableError):
        return "unreachable"
    return "input" if isinstance(error, InputError | TypeError) else "failed"


def is_told(error: BaseException) -> bool:
    """Whether an error is about the client's request; any other is our own fault."""
    return isinstance(error, OctopiaError | TypeError)
