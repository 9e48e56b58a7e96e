"""Which proposals the replays speak against."""

from octopia.planning import Measured, rejected_of


def measured(name: str, copies: int, delay_s: float | None) -> Measured:
    return Measured(name, "fdr", copies, 0, 10, delay_s, delay_s, 1.0, None, None)


def test_a_proposal_that_its_replay_shows_to_be_worse_is_rejected() -> None:
    replays = [
        measured("before", 1000, 1.0),
        measured("better", 500, 0.5),
        measured("the same, all but", 1015, 1.0),
        measured("slower", 500, 1.55),
        measured("louder and slower", 1100, 1.2),
        measured("nothing delivered", 900, None),
    ]
    assert rejected_of(replays) == {
        "slower": "mean delay +55%",
        "louder and slower": "messages +10%, mean delay +20%",
    }
