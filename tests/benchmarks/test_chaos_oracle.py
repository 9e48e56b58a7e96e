"""The oracle of the trial, against cases worked out by hand. Time is moved by hand."""

import pytest
from benchmarks.chaos.oracle import Content, Ledger, Tally, Term, Wish
from benchmarks.chaos.outcome import ACCEPTED, Outcome, Promise


class Books(Ledger):
    """A ledger whose clock is a number, with one publisher `p`."""

    def __init__(self) -> None:
        self.time = 0.0
        super().__init__(lambda: self.time)

    def reader(self, name: str = "r", *, bystander: bool = False) -> None:
        self.subscribe(name, Wish.of(("class", "=", "q")), bystander=bystander)
        self.in_force(name)

    def put(self, *numbers: int, at: float | None = None, about: str = "q") -> None:
        for number in numbers:
            self.time = float(number) if at is None else at
            self.publish("p", note(number, about))

    def got(self, *numbers: int, name: str = "r", at: float | None = None) -> None:
        for number in numbers:
            self.time = self.time if at is None else at
            self.deliver(name, note(number))


def note(number: int, about: str = "q") -> Content:
    return {"class": about, "by": "p", "n": number}


@pytest.mark.parametrize(
    ("term", "content", "wanted"),
    [
        (("x", "=", 1), {"x": 1}, True),
        (("x", "=", 1), {"x": 1.0}, True),
        (("x", "=", 1), {"x": True}, False),
        (("x", "<>", 1), {"x": "one"}, False),
        (("x", "<>", 1), {"x": 2}, True),
        (("x", "<>", 1), {"y": 2}, False),
        (("x", "<", 1), {"x": 0}, True),
        (("x", "<=", 1), {"x": 1}, True),
        (("x", ">", 1), {"x": 1}, False),
        (("x", ">=", "b"), {"x": "c"}, True),
        (("x", "prefix", "ab"), {"x": "abc"}, True),
        (("x", "prefix", "bc"), {"x": "abc"}, False),
        (("x", "contains", "b"), {"x": "abc"}, True),
        (("x", "contains", "1"), {"x": 1}, False),
    ],
)
def test_a_term_is_typed_by_its_constant(term: Term, content: Content, wanted: bool) -> None:
    assert Wish.of(term).wants(content) is wanted


def test_a_wish_is_a_disjunction_of_conjunctions_and_says_so() -> None:
    wish = Wish(((("class", "=", "q"), ("x", ">", 3)), (("name", "prefix", "A"),)))
    assert wish.text() == "class = 'q' and x > 3 or name like 'A%'"
    contents: list[Content] = [{"class": "q", "x": 4}, {"class": "q", "x": 3}, {"name": "Ab"}]
    assert [wish.wants(content) for content in contents] == [True, False, True]


def test_what_is_confirmed_and_wanted_is_promised_and_nothing_else() -> None:
    books = Books()
    books.put(1)  # before the subscription
    books.time = 1.5
    books.reader()
    books.put(2, 3)
    books.put(4, about="other")
    books.put(5, 6)
    books.confirm("p", 5)
    books.got(2, 5)
    assert books.tally() == Tally(promised=3, lost=1, lost_by={"r": 1})


def test_nothing_is_promised_in_an_excused_time_or_after_the_end() -> None:
    books = Books()
    books.reader()
    books.excuse("r", 2.0, 4.0)
    books.put(1, 2, 3, 4)
    books.time = 4.5
    books.ended("r")
    books.put(5)
    books.confirm("p", 5)
    books.got(2)
    assert books.tally() == Tally(promised=2, lost=2, lost_by={"r": 2})


def test_repeats_disorder_and_unwanted_are_told_apart() -> None:
    books = Books()
    books.reader()
    books.put(1, 2, 3, 4)
    books.put(5, about="other")
    books.confirm("p", 5)
    books.got(1, 3, 2, 3, 4)
    books.deliver("r", note(5, "other"))  # published, and not wanted
    books.deliver("r", note(6))  # never published
    books.deliver("r", {"class": "q", "by": "nobody", "n": 1})
    assert books.tally() == Tally(promised=4, repeated=1, unwanted=3, out_of_order=1)


def test_a_notification_with_other_content_is_unwanted() -> None:
    books = Books()
    books.reader()
    books.put(1)
    books.deliver("r", {**note(1), "x": 7})
    assert books.tally().unwanted == 1


def test_delays_count_from_when_a_notification_was_due_and_grow_while_it_is_missing() -> None:
    books = Books()
    books.reader("near", bystander=True)
    books.reader("far")
    books.time = 2.0
    books.publish("p", note(1), due=1.0)
    books.publish("p", note(2), due=1.5)
    books.got(1, name="near", at=3.0)
    books.time = 9.0
    assert books.worst_delay(0.0, 1.2) == 2.0
    assert books.worst_delay(0.0, 2.0) == 7.5
    assert books.rate(2.0, 4.0) == 0.5


def test_recovery_is_the_first_delivery_of_something_published_after_the_fault() -> None:
    books = Books()
    books.reader("one")
    books.reader("two")
    books.put(1, at=1.0)
    books.put(2, at=5.0)
    for name, first, second in (("one", 6.0, 7.0), ("two", 6.0, 9.0)):
        books.got(1, name=name, at=first)
        books.got(2, name=name, at=second)
    assert books.recovery(4.0, ["one", "two"], ["p"]) == 5.0
    assert books.recovery(8.0, ["one"], ["p"]) is None


@pytest.mark.parametrize(
    ("outcome", "promise", "faults"),
    [
        (Outcome(tally=Tally(promised=9)), Promise(), []),
        (Outcome(tally=Tally(9, 1, 2, 3, 4)), Promise(), ["1 lost", "2 repeated", "3 unwanted", "4 out of order"]),
        (Outcome(tally=Tally(promised=9, repeated=2)), Promise(repeats=True), []),
        (Outcome(never_recovered=True), Promise(), ["never recovered"]),
        (Outcome(recovery_s=3.0), Promise(recovery_s_max=2.0), ["recovery took 3.0 s"]),
        (Outcome(rate_ratio=0.96, delay_s=0.3, calm_delay_s=0.1), Promise(), []),
        (
            Outcome(rate_ratio=0.5, delay_s=1.0),
            Promise(),
            ["bystanders at 50% of their rate", "bystanders waited 1,000 ms"],
        ),
    ],
)
def test_an_outcome_is_judged_by_what_is_promised(outcome: Outcome, promise: Promise, faults: list[str]) -> None:
    outcome.judge(promise)
    assert outcome.faults == faults


def test_what_must_be_refused_and_is_not_is_a_fault() -> None:
    refused, accepted = Outcome(), Outcome()
    refused.refused("no such right")
    accepted.accepted("anyone may")
    assert (refused.answer, refused.verdict) == ("refused: no such right", "held")
    assert (accepted.answer, accepted.verdict) == (ACCEPTED, "FAULT: anyone may")
