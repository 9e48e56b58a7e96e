"""Names of brokers: written, read, refused."""

import pytest

from octopia import TopologyError
from octopia.topology import BrokerId


@pytest.mark.parametrize("text", ["b,2", "(b,2)", " ( b , 2 ) ", "b, 2"])
def test_parse_reads_both_forms(text: str) -> None:
    assert BrokerId.parse(text) == BrokerId("b", 2)


def test_str_is_read_back() -> None:
    assert str(BrokerId("b", 2)) == "(b,2)"
    assert BrokerId.parse(str(BrokerId("süd-1", 12))) == BrokerId("süd-1", 12)


def test_a_broker_is_its_pair() -> None:
    assert BrokerId("b", 2) == ("b", 2)
    assert {BrokerId("b", 2): 1}[("b", 2)] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b", "'b' is not a broker: write region,cluster, for example b,2 or (b,2)"),
        ("", "write region,cluster"),
        ("(b,2", "write region,cluster"),
        ("((b,2))", "write region,cluster"),
        ("b,x", "'b,x' is not a broker: the cluster after the comma must be a number from 0, not 'x'"),
        ("b,-1", "must be a number from 0, not '-1'"),
        ("b,", "must be a number from 0, not ''"),
        ("b,²", "must be a number from 0"),
        ("2,b", "(the region comes first: b,2)"),
        ("b,1024", "cluster 1024 is too large, at most 1023"),
        ("b,99999999999999", "must be a number from 0"),
        ("a b,2", "' ' is a space"),
        ("a,b,2", "',' is a comma"),
        (",2", "must not be empty"),
    ],
)
def test_what_is_no_broker(text: str, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        BrokerId.parse(text)
    assert problem in str(caught.value)
