"""What brokers know of links: against the truth and a search by hand, whatever the order in which word comes."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.embedded import Hop, Network
from octopia.errors import RemoteProtocolError
from octopia.language import parse_filter, parse_notification
from octopia.protocol import LinkReport, Notify
from octopia.routing import Advertised, Published, Subscribed
from octopia.routing.fdr.broker_sets import AROUND
from octopia.routing.fdr.news import VERSION_MAX, KnownLinks
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.harness import draw_tree

End = tuple[BrokerId, BrokerId]


def connected(scot: Scot, start: BrokerId, up: set[End]) -> set[BrokerId]:
    """By search along links, one broker after the other."""
    seen, todo = {start}, [start]
    for broker in todo:
        fresh = [near for near in scot.neighbours(broker) if (broker, near) in up and near not in seen]
        seen.update(fresh)
        todo += fresh
    return seen


def as_bits(scot: Scot, brokers: set[BrokerId]) -> int:
    return sum(1 << place for place, broker in enumerate(scot.brokers) if broker in brokers)


class Word:
    """Brokers that know nothing but links, and word on its way between them: links keep order and delay as drawn."""

    def __init__(self, scot: Scot, draw: Random, start_apart: bool) -> None:
        self.scot = scot
        self.draw = draw
        self.states = {id: KnownLinks(scot, id) for id in scot.brokers}
        self.ends = [(a, b) for a in scot.brokers for b in scot.neighbours(a)]
        # ends whose broker holds the link to be up, and ends of links that connect
        self.up: set[End] = set() if start_apart else set(self.ends)
        self.joined: set[End] = set(self.up)
        self.untold: set[End] = set()
        self.flying: dict[End, list[tuple[LinkReport, ...]]] = {end: [] for end in self.ends}
        self.sent = 0
        self.lives = dict.fromkeys(scot.brokers, 0)

    def flood(self, at: BrokerId, reports: tuple[LinkReport, ...], came_by: BrokerId | None) -> None:
        for near in self.scot.neighbours(at):
            some = tuple(report for report in reports if near != came_by or report.reporter == at)
            if some and (at, near) in self.up:
                self.send((at, near), some)

    def send(self, end: End, reports: tuple[LinkReport, ...]) -> None:
        self.sent += 1
        if end in self.joined:
            self.flying[end].append(reports)

    def cut(self, end: End) -> None:
        back = end[::-1]
        self.joined -= {end, back}
        self.untold -= {end, back}
        self.flying[end].clear()
        self.flying[back].clear()

    def notice(self, end: End) -> None:
        self.up.discard(end)
        state = self.states[end[0]]
        self.flood(end[0], state.heard(state.went_down(end[1])), None)

    def join(self, end: End) -> None:
        if end not in self.joined:
            self.joined |= {end, end[::-1]}
            self.untold |= {end, end[::-1]}

    def tell(self, end: End) -> None:
        self.untold.discard(end)
        at, near = end
        state = self.states[at]
        self.flood(at, state.heard(state.came_up(near)), None)
        self.up.add(end)
        if state.all_reports():
            self.send(end, state.all_reports())

    def restart(self, broker: BrokerId, remembers: bool) -> None:
        for near in self.scot.neighbours(broker):
            self.cut((broker, near))
            self.up.discard((broker, near))
        self.lives[broker] += 1
        self.states[broker] = KnownLinks(self.scot, broker, self.lives[broker] << 20 if remembers else 0)

    def arrive(self) -> bool:
        ends = [end for end in self.ends if self.flying[end] and end[::-1] not in self.untold]
        if not ends:
            return False
        sender, receiver = end = self.draw.choice(ends)
        self.flood(receiver, self.states[receiver].heard(self.flying[end].pop(0)), sender)
        return True

    def rest(self) -> None:
        """Everyone has noticed what there is to notice, and word has come."""
        for end in self.ends:
            if end in self.untold:
                self.tell(end)
            elif end not in self.joined:
                # a broker that restarted is told so, too, when the link does not come up
                self.notice(end)
        while self.arrive():
            pass

    def check(self) -> None:
        for id, state in self.states.items():
            part = connected(self.scot, id, self.joined)
            assert state.unreachable == as_bits(self.scot, set(self.scot.brokers) - part)
            for a, b in self.ends:
                if a in part or b in part:
                    assert state.is_down(a, b) is ((a, b) not in self.joined)
            assert len(state.all_reports()) <= len(self.ends)
            if self.joined == set(self.ends):
                assert not state.any_down


@settings(max_examples=cases(150), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_connected_brokers_agree_with_the_truth_at_rest(seed: int) -> None:
    draw = Random(seed)
    word = Word(Scot(draw_tree(draw), draw.choice((1, 2, 3, 4))), draw, start_apart=draw.random() < 0.3)
    remembers = draw.random() < 0.5
    for _ in range(3):
        for _ in range(draw.randint(1, 25)):
            match draw.choice(("cut", "cut", "notice", "join", "tell", "restart", "arrive", "arrive", "arrive")):
                case "cut" if word.joined:
                    word.cut(draw.choice([end for end in word.ends if end in word.joined]))
                case "notice":
                    for end in [end for end in word.ends if end not in word.joined and draw.random() < 0.5]:
                        word.notice(end)
                case "join":
                    for end in [end for end in word.ends if draw.random() < 0.3]:
                        word.join(end)
                case "tell" if word.untold:
                    word.tell(draw.choice([end for end in word.ends if end in word.untold]))
                case "restart":
                    word.restart(draw.choice(word.scot.brokers), remembers)
                case _:
                    word.arrive()
        word.rest()
        word.check()
    for end in word.ends:
        word.join(end)
    word.rest()
    word.check()


@pytest.mark.parametrize(("tree", "clusters"), [("path:1", 4), ("path:4", 1), ("path:3", 3), ("balanced:2,2", 4)])
def test_one_change_takes_at_most_one_message_on_each_link_and_direction(tree: str, clusters: int) -> None:
    draw = Random(5)
    word = Word(Scot(parse_tree(tree), clusters), draw, start_apart=False)
    for a, b in word.scot.links:
        word.cut((a, b))
        word.sent = 0
        word.notice((a, b))
        while word.arrive():
            pass
        assert word.sent <= len(word.ends)
        word.notice((b, a))
        word.rest()
        word.check()
        word.join((a, b))
        word.rest()


def test_nobody_says_anything_when_all_links_come_up_for_the_first_time() -> None:
    word = Word(Scot(parse_tree("path:3"), 3), Random(0), start_apart=True)
    for end in word.ends:
        word.join(end)
    for end in list(word.ends):
        word.tell(end)
    assert word.sent == 0


def test_a_report_of_an_earlier_life_is_taken_back() -> None:
    scot = Scot(parse_tree("path:2"), 2)
    a0, a1, b0 = BrokerId("a", 0), BrokerId("a", 1), BrokerId("b", 0)
    before = KnownLinks(scot, a0)
    (said,) = before.went_down(b0)
    after = KnownLinks(scot, a0)
    assert after.came_up(b0) == ()
    assert after.heard([said]) == (LinkReport(a0, b0, said.version + 1, True),)
    assert not after.is_down(a0, b0)
    # of a link that it was told nothing of it knows no better
    (of_other,) = before.went_down(a1)
    assert after.heard([of_other]) == (of_other,)
    assert after.is_down(a1, a0)


def test_down_counts_where_versions_are_equal_in_any_order() -> None:
    scot = Scot(parse_tree("path:2"), 2)
    a0, b0 = BrokerId("a", 0), BrokerId("b", 0)
    up, down = LinkReport(a0, b0, 5, True), LinkReport(a0, b0, 5, False)
    for reports in ((up, down), (down, up), (down, up, down)):
        state = KnownLinks(scot, BrokerId("b", 1))
        for report in reports:
            state.heard([report])
        assert state.is_down(a0, b0)
        assert state.all_reports() == (down,)


def test_what_is_heard_twice_is_passed_on_once() -> None:
    scot = Scot(parse_tree("path:3"), 2)
    a0, b0 = BrokerId("a", 0), BrokerId("b", 0)
    (report,) = KnownLinks(scot, a0).went_down(b0)
    state = KnownLinks(scot, BrokerId("c", 1))
    assert state.heard([report, report]) == (report,)
    assert state.heard([report]) == ()


@pytest.mark.parametrize(
    "report",
    [
        LinkReport(BrokerId("a", 0), BrokerId("c", 0), 1, False),
        LinkReport(BrokerId("a", 0), BrokerId("b", 1), 1, False),
        LinkReport(BrokerId("a", 0), BrokerId("a", 0), 1, False),
        LinkReport(BrokerId("a", 0), BrokerId("a", 7), 1, False),
        LinkReport(BrokerId("z", 0), BrokerId("a", 0), 1, False),
        LinkReport(BrokerId("a", 0), BrokerId("b", 0), -1, False),
        LinkReport(BrokerId("a", 0), BrokerId("b", 0), VERSION_MAX + 1, False),
    ],
)
def test_what_names_no_link_is_refused_and_changes_nothing(report: LinkReport) -> None:
    state = KnownLinks(Scot(parse_tree("path:3"), 2), BrokerId("a", 0))
    good = LinkReport(BrokerId("b", 0), BrokerId("c", 0), 1, False)
    with pytest.raises(RemoteProtocolError, match="news of a link between"):
        state.heard([good, report])
    assert state.all_reports() == ()
    assert not state.any_down


def test_a_version_that_nothing_can_follow_is_left_alone() -> None:
    scot = Scot(parse_tree("path:2"), 2)
    a0, b0 = BrokerId("a", 0), BrokerId("b", 0)
    state = KnownLinks(scot, a0)
    state.came_up(b0)
    assert state.heard([LinkReport(a0, b0, VERSION_MAX, False)]) == ()
    assert state.came_up(b0) == ()


# -- the ways that copies take


class Ways(Network):
    """A client at every broker; the links that each copy crossed on its way from a host broker to a destination."""

    def __init__(self, scot: Scot) -> None:
        super().__init__(scot, "fdr", on_action=self._act)
        self.crossed: dict[BrokerId, list[End]] = {}
        for broker in scot.brokers:
            self.tell(broker, Subscribed("c", "s", parse_filter("x is not null")))
            self.tell(broker, Advertised("c", "a", parse_filter("x is not null")))
        self.run_until_quiet()

    def _act(self, broker: BrokerId, action: object, cause: Hop | None) -> None:
        if cause is not None and isinstance(cause.message, Notify):
            way: list[End] = []
            while cause is not None:
                way.append((cause.sender, cause.receiver))
                cause = cause.cause
            self.crossed[broker] = way

    def choose(self, host: BrokerId, tree: int) -> None:
        for near in self.overlay.a_links(host):
            self.hold_queue(host, near, {host.cluster: 0, AROUND: 2}.get(tree, 60))
        for near in self.overlay.i_links(host):
            self.hold_queue(host, near, {host.cluster: 0, near.cluster: 2}.get(tree, 60))

    def publish(self, host: BrokerId) -> dict[BrokerId, list[End]]:
        self.crossed = {}
        self.tell(host, Published("c", "n", parse_notification({"x": 1})))
        self.run_until_quiet()
        assert sorted(self.crossed) == sorted(set(self.overlay.brokers) - {host})
        return self.crossed


@pytest.mark.parametrize(("tree", "clusters"), [("path:1", 3), ("path:3", 1), ("path:3", 3), ("balanced:2,2", 3)])
def test_what_a_link_cuts_is_what_crosses_it(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    network = Ways(scot)
    for host in scot.brokers:
        state = KnownLinks(scot, host)
        trees = [*range(clusters), *([AROUND] if scot.a_links(host) and clusters > 1 else [])]
        for chosen in trees:
            network.choose(host, chosen)
            crossed = network.publish(host)
            for a, b in scot.links:
                over = {broker for broker, way in crossed.items() if (a, b) in way or (b, a) in way}
                for link in ((a, b), (b, a)):
                    cut = {broker for broker in scot.brokers if state.cut_by(link, chosen) & as_bits(scot, {broker})}
                    if chosen == AROUND:
                        # region mates may go by another region, where others are not among the destinations
                        assert over <= cut
                        cut = {broker for broker in cut if broker in over or broker.region != host.region}
                    assert cut == over


def test_region_mates_around_go_by_any_of_the_regions_near() -> None:
    scot = Scot(parse_tree("star:4"), 3)
    host = BrokerId("a", 0)
    state = KnownLinks(scot, host)
    mate = BrokerId("a", 2)
    for near in [*"bcd"]:
        for link in ((host, BrokerId(near, 0)), (BrokerId(near, 0), BrokerId(near, 2)), (BrokerId(near, 2), mate)):
            assert state.cut_by(link, AROUND) & as_bits(scot, {mate})
        assert not state.cut_by((BrokerId(near, 0), BrokerId(near, 1)), AROUND) & as_bits(scot, {mate})
    assert state.cut_by((host, mate), AROUND) == as_bits(scot, {mate})
