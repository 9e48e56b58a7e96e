"""The opening of a page: the sentence, word for word, and a chart."""

import pyarrow as pa
import pytest

from octopia.experiments import SERIES_SCHEMA, MetricRow, lead_sentence, make_lead
from octopia.experiments.summary import Summary


@pytest.mark.parametrize(
    ("delays", "sentence"),
    [
        ({}, ""),
        ({"snr": 4.79}, "SNR delivers after 4.79 s on average."),
        ({"snr": 1.0, "tid": 1.05}, "SNR delivers after 1 s on average; TID takes 1.05 s."),
        ({"fdr": 0.5, "snr": 10.0}, "FDR delivers after 500 ms on average; SNR takes 10 s, 20 times as long."),
        (
            {"fdr": 0.6743, "tid": 4.652, "snr": 4.788, "idr": 4.813},
            (
                "FDR delivers after 674.3 ms on average; TID takes 4.65 s, SNR 4.79 s and IDR 4.81 s, "
                "at least 6.9 times as long."
            ),
        ),
        ({"fdr": 0.0, "snr": 1.0}, "FDR delivers after 0 s on average; SNR takes 1 s."),
    ],
)
def test_the_result_in_a_sentence(delays: dict[str, float], sentence: str) -> None:
    assert lead_sentence(delays) == sentence


def summary_of(**delays: float | None) -> Summary:
    given = {"experiment": "x", "point": "5", "x": 5.0, "seed": 1, "metric": "notification_delay"}
    return Summary([MetricRow(**given, system=s, part="mean", unit="s", value=v) for s, v in delays.items()])  # type: ignore[arg-type]


def series_of(**lines: list[tuple[float, float]]) -> pa.Table:
    given = {"experiment": "x", "point": "5", "x": 5.0, "seed": 1, "metric": "max_delay", "part": ""}
    rows = [{**given, "system": s, "at_s": at, "value": value} for s, line in lines.items() for at, value in line]
    return pa.Table.from_pylist(rows, SERIES_SCHEMA)


def test_the_shortest_is_named_first_and_the_chart_shows_all_in_their_order() -> None:
    lead = make_lead(summary_of(snr=4.0, fdr=0.5), series_of(snr=[(1.0, 4.0)], fdr=[(1.0, 0.5)]), "1 < 2")
    sentence = "FDR delivers after 500 ms on average; SNR takes 4 s, 8.0 times as long."
    assert lead.html.startswith(f'<h1>{sentence}</h1>\n<figure><div class="row"><div><svg')
    assert lead.html.endswith("<figcaption>1 &lt; 2</figcaption></figure>")
    assert list(lead.charts) == ["lead-over-time", "lead-mean"]
    svg = lead.charts["lead-mean"]["svg"].decode()
    assert svg.index(">4 s<") < svg.index(">0.5 s<")
    assert lead == make_lead(summary_of(snr=4.0, fdr=0.5), series_of(snr=[(1.0, 4.0)], fdr=[(1.0, 0.5)]), "1 < 2")


def test_nothing_delivered_is_nothing_to_open_with() -> None:
    lead = make_lead(summary_of(snr=None), series_of(), "")
    assert (lead.html, lead.charts) == ("", {})
