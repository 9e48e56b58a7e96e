"""`octopia explain FILE`: why did this client (not) get this notification?

Rules of this file: it shows the answers that `octopia.embedded.explain` finds, and adds nothing to them.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.console import out, print_json, printable, say
from octopia.cli.replay import FileArgument, JsonOption, RoutingOption

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.embedded import Answer


def explain(
    file: FileArgument,
    notification: Annotated[
        str | None, typer.Option("--notification", "-n", metavar="ID", help="Only this notification.")
    ] = None,
    client: Annotated[str | None, typer.Option("--client", "-c", metavar="NAME", help="Only this client.")] = None,
    routing: RoutingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why each client did, or did not, get each notification of a scenario.

    The answer is the path it took, the predicate that failed, or the advertisement that was missing.
    """
    from octopia.embedded import explain as find_answers
    from octopia.embedded import load_scenario, replay

    answers = find_answers(replay(load_scenario(file), routing), notification=notification, client=client)
    if as_json:
        print_json([answer.to_jsonable() for answer in answers])
    else:
        show_answers(out(), answers)


def show_answers(console: "Console", answers: "list[Answer]") -> None:
    if not answers:
        say(console, "Nothing to explain: the scenario publishes nothing, or nobody ever subscribes.")
    for number, answer in enumerate(answers):
        if number:
            say(console)
        verdict = "got" if answer.delivered else "did not get"
        style = "bold green" if answer.delivered else "bold yellow"
        say(console, f"{answer.client} {verdict} {answer.notification} of {answer.publisher}", style)
        for reason in answer.reasons:
            say(console, f"  {printable(reason)}")
