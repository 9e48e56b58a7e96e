"""Read a stream of quotes from a running overlay into Spark, and print them.

octopia serve
python examples/stream.py
echo '{"symbol": "AAPL", "price": 120.5}' | octopia pub
"""

import sys
import tempfile
from typing import Any

from octopia.spark import open_session, register, stream_errors

URL = "octopia://127.0.0.1:7400"


def quotes(spark: Any, url: str, spool: str) -> Any:
    """The quotes above 100, as a stream."""
    register(spark)
    return (
        spark.readStream.format("octopia")
        .option("url", url)
        .option("filter", "price > 100")
        .option("spool", spool)
        .schema("symbol string, price double")
        .load()
    )


def show(batch: Any, number: int) -> None:
    for quote in batch.collect():
        print(f"{quote.symbol} at {quote.price}", flush=True)


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else URL
    with open_session() as session, tempfile.TemporaryDirectory() as folder, stream_errors("quotes"):
        query = (
            quotes(session.spark, url, f"{folder}/spool")
            .writeStream.foreachBatch(show)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start()
        )
        # The subscription is in force when the first batch has been planned; what is published from then on comes.
        query.processAllAvailable()
        print("Waiting for quotes above 100; Ctrl-C ends.", flush=True)
        query.awaitTermination()


if __name__ == "__main__":
    main()
