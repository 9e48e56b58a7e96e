"""`octopia explain FILE`: why did this client (not) get this notification?

This file only prints; `octopia.embedded.explain` finds the answers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.options import JsonOption, RoutingOption, ScenarioArgument
from octopia.cli.terminal import out, print_json, printable, say

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.embedded import Answer
    from octopia.watch import LiveAnswer


def explain(
    file: ScenarioArgument,
    notification: Annotated[
        str | None, typer.Option("--notification", "-n", metavar="ID", help="Only this notification.")
    ] = None,
    client: Annotated[str | None, typer.Option("--client", "-c", metavar="NAME", help="Only this client.")] = None,
    routing: RoutingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain why each client did or did not get each notification of a scenario.

    The answer is the path it took, the predicate that failed, or the advertisement that was missing.
    """
    from octopia.embedded import explain as find_answers
    from octopia.embedded import load_scenario, replay

    answers = find_answers(replay(load_scenario(file), routing), notification=notification, client=client)
    if as_json:
        print_json([answer.to_jsonable() for answer in answers])
    else:
        show_answers(out(), answers)


def show_answers(
    console: "Console", answers: "Sequence[Answer | LiveAnswer]", verdicts: tuple[str, str] = ("got", "did not get")
) -> None:
    if not answers:
        say(console, "Nothing to explain: the scenario has no publications or no subscriptions.")
    for number, answer in enumerate(answers):
        if number:
            say(console)
        verdict = verdicts[0] if answer.delivered else verdicts[1]
        style = "bold green" if answer.delivered else "bold yellow"
        of = f" of {answer.publisher}" if answer.publisher else ""
        say(console, printable(f"{answer.client} {verdict} {answer.notification}{of}"), style)
        for reason in answer.reasons:
            say(console, f"  {printable(reason)}")
