"""The page on data quality beside the report: inputs, rejected rows with reasons, gaps, and ranges.

A gap is a day on which other symbols have a quote, and this one has quotes before and after it but none on it. Of long
lists the page shows the worst `SHOWN_MAX`; the tables `rejects` and `inputs` have all rows.
"""

from typing import TYPE_CHECKING, Final

from octopia.experiments import page_html, table_html

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGE: Final = "quality.html"
TITLE: Final = "Data quality: inputs, rejected rows, gaps and ranges"
SHOWN_MAX: Final = 20
_COLUMNS: Final = ("date", "open", "high", "low", "close", "volume")


def quality_page(quotes: "DataFrame | None", rejects: "DataFrame | None", inputs: "DataFrame | None") -> str:
    """One self-contained HTML page; None stands for a table without rows, which needs no job."""
    if quotes is None:
        parts = ["<p>No quotes.</p>", _inputs(inputs), _rejects(rejects)]
    else:
        summary, ranges = _totals(quotes)
        parts = [summary, _inputs(inputs), _rejects(rejects), _gaps(quotes), ranges]
    return page_html("data quality", "\n".join(["<h1>Data quality</h1>", *parts]))


def gaps_of(quotes: "DataFrame") -> "DataFrame":
    """A row per symbol: `symbol`, `first`, `last`, `quotes`, and how many days are `missing` between them."""
    from pyspark.sql import functions as fn
    from pyspark.sql.window import Window

    # One row per day goes through one partition: a century of them is 25,000.
    days = quotes.select("date").distinct().withColumn("day", fn.row_number().over(Window.orderBy("date")))
    by_symbol = quotes.join(fn.broadcast(days), "date").groupBy("symbol")
    counted = by_symbol.agg(
        fn.min("date").alias("first"),
        fn.max("date").alias("last"),
        fn.count(fn.lit(1)).alias("quotes"),
        (fn.max("day") - fn.min("day") + 1 - fn.count(fn.lit(1))).alias("missing"),
    )
    return counted.orderBy(fn.desc("missing"), "symbol")


def _totals(quotes: "DataFrame") -> tuple[str, str]:
    """Facts about all quotes, in one job: their number, and the range of each column."""
    from pyspark.sql import functions as fn

    asked = [fn.count(fn.lit(1)).alias("rows"), fn.countDistinct("symbol").alias("symbols")]
    asked += [one(name).alias(f"{name}_{end}") for name in _COLUMNS for one, end in ((fn.min, "min"), (fn.max, "max"))]
    asked += [fn.percentile_approx(name, 0.5).alias(f"{name}_mid") for name in _COLUMNS[1:]]
    row = quotes.agg(*asked).collect()[0].asDict()
    rows = [(name, row[f"{name}_min"], row.get(f"{name}_mid", ""), row[f"{name}_max"]) for name in _COLUMNS]
    return (
        f"<p>{row['rows']:,} quotes of {row['symbols']:,} symbols.</p>",
        f"<h2>Ranges</h2>{table_html(('column', 'least', 'median, about', 'greatest'), rows)}",
    )


def _inputs(inputs: "DataFrame | None") -> str:
    from pyspark.sql import functions as fn

    if inputs is None:
        return "<h2>Inputs</h2><p>No files: the quotes were made from a seed.</p>"
    counts = inputs.groupBy("state").agg(fn.count(fn.lit(1)).alias("files"), fn.sum("rows").alias("rows"))
    states = [(row.state, f"{row.files:,}", f"{row.rows:,}") for row in counts.orderBy("state").collect()]
    odd = inputs.where(fn.col("state") != "read").orderBy("file").limit(SHOWN_MAX).collect()
    more = table_html(("file", "", "why"), [(row.file, row.state, row.reason) for row in odd]) if odd else ""
    return f"<h2>Inputs</h2>{table_html(('state', 'files', 'rows'), states)}{more}"


def _rejects(rejects: "DataFrame | None") -> str:
    from pyspark.sql import functions as fn

    if rejects is None:
        return "<h2>Rejected rows</h2><p class=good>None.</p>"
    found = rejects.groupBy("reason").agg(
        fn.count(fn.lit(1)).alias("rows"), fn.min(fn.struct("file", "line", "text")).alias("first")
    )
    rows = [
        (row.reason, f"{row.rows:,}", f"{row['first'].file}, line {row['first'].line}", str(row["first"].text)[:120])
        for row in found.orderBy(fn.desc("rows"), "reason").limit(SHOWN_MAX).collect()
    ]
    heads = ("reason", "rows", "the first", "its text")
    return f"<h2>Rejected rows, repeated ones among them</h2>{table_html(heads, rows)}"


def _gaps(quotes: "DataFrame") -> str:
    worst = gaps_of(quotes).where("missing > 0").limit(SHOWN_MAX).collect()
    if not worst:
        return "<h2>Gaps</h2><p class=good>None: every symbol has a quote on every day from its first to its last.</p>"
    rows = [(row.symbol, f"{row.missing:,}", f"{row.quotes:,}", row["first"], row["last"]) for row in worst]
    heads = ("symbol", "missing days", "quotes", "first", "last")
    return f"<h2>Gaps</h2><p>The symbols with most missing days:</p>{table_html(heads, rows)}"
