"""The numbers of a workload's requests in a trace, and the requests that begin and end each registration.

Requests are numbered by kind, whatever the order in which they happen: the first advertisements, the first
subscriptions, all publications, all changes. The checkers of a trace use these numbers.
"""

from typing import NamedTuple

from octopia.workload import Registration, Workload


class FirstNumbers(NamedTuple):
    """The number of the first subscription, publication and change; that of the first advertisement is 0."""

    subscription: int
    publication: int
    change: int


class Registered(NamedTuple):
    """A registration, the request that made it, and the one that withdrew it, if any. `at_first`: before publishing."""

    registration: Registration
    begun_by: int
    ended_by: int | None
    at_first: bool


def first_numbers(workload: Workload) -> FirstNumbers:
    subscription = len(workload.advertisements)
    publication = subscription + len(workload.subscriptions)
    return FirstNumbers(subscription, publication, publication + len(workload.publications))


def registrations(workload: Workload) -> tuple[list[Registered], list[Registered]]:
    """All advertisements and subscriptions there ever are, each in the order of their numbers."""
    first = first_numbers(workload)
    found = (
        [Registered(each, n, None, True) for n, each in enumerate(workload.advertisements)],
        [Registered(each, n, None, True) for n, each in enumerate(workload.subscriptions, first.subscription)],
    )
    # by client and id, the index of the registration that is held
    held = [{(each.registration.client, each.registration.id): n for n, each in enumerate(kind)} for kind in found]
    for number, change in enumerate(workload.changes, first.change):
        of = 0 if change.kind.endswith("advertise") else 1
        name = change.registration.client, change.registration.id
        if change.kind.startswith("un"):
            place = held[of].pop(name, None)
            if place is not None:
                found[of][place] = found[of][place]._replace(ended_by=number)
        else:
            held[of][name] = len(found[of])
            found[of].append(Registered(change.registration, number, None, False))
    return found
