"""The data source `octopia` as Spark sees it: one class, found by its name.

It only delegates. Spark pickles the class by name, so octopia must be installed where tasks run.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.datasource import DataSourceStreamWriter as SparkStreamWriter
from pyspark.sql.types import StructType

from octopia.errors import InputError
from octopia.pipeline.source.columns import implied_schema
from octopia.pipeline.source.options import read_options
from octopia.pipeline.source.reader import StreamReader
from octopia.pipeline.source.writer import BatchWriter, StreamWriter, WritePlan

FORMAT = "octopia"


class OctopiaSource(DataSource):
    """`spark.readStream.format("octopia")`, `df.writeStream.format("octopia")`, `df.write.format("octopia")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """The schema if none was given: the one that the advertisement implies."""
        options = read_options(self.options)
        if options.advertisement is None:
            raise InputError(
                "no schema: notifications may differ, and a broker does not know them in advance; give "
                ".schema(\"symbol string, close double\"), or the advertisement as option 'advertisement'"
            )
        return implied_schema(options.advertisement, options.filter)

    def reader(self, schema: StructType) -> DataSourceReader:
        raise InputError(
            "octopia is a live source, and a batch read would never end: use readStream, with "
            "trigger(availableNow=True) for arrivals since the last run"
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        return StreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(WritePlan.of(dict(self.options), schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> SparkStreamWriter:  # noqa: N802
        return StreamWriter(WritePlan.of(dict(self.options), schema, overwrite))
