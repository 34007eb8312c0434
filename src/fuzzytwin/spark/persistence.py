"""Save and load with Spark: parameters as JSON, the model as a model file in Parquet.

The model is the file that `fuzzytwin.store` writes, in rows of some megabytes, so that it goes
wherever Spark can write, and nothing in it runs when it is read.
"""

from __future__ import annotations

import json
import time
from typing import Any

from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter

FORMAT = 1
ROW_BYTES = 1 << 22


class ReadWrite(MLReadable[Any], MLWritable):
    """Persistence as JSON and Parquet, written and read by Spark."""

    def write(self) -> MLWriter:
        """Return a writer; ``overwrite()`` lets it replace what is there."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        """Return a reader."""
        return _Reader(cls)


class _Writer(MLWriter):
    """Writes ``metadata`` and ``model`` under a path."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        """Write parameters and model; an existing path is an error without `overwrite`."""
        from fuzzytwin.store.files import to_bytes

        spark, saved = self.sparkSession, self.instance
        model = saved.to_sklearn()
        content = to_bytes(model)
        own = model.get_params(deep=False)
        params = {param.name: param for param in saved.params if saved.isDefined(param)}
        metadata = {
            "class": _address(type(saved)),
            "format": FORMAT,
            "timestamp": int(time.time() * 1000),
            "sparkVersion": spark.version,
            "uid": saved.uid,
            # Values of the model's own parameters are in the model.
            "set": [name for name, param in params.items() if saved.isSet(param)],
            "columns": {
                name: saved.getOrDefault(param) for name, param in params.items() if name not in own
            },
            "label_type": getattr(saved, "label_type", None),
        }
        mode = "overwrite" if self.shouldOverwrite else "error"
        rows = [
            (start // ROW_BYTES, bytearray(content[start : start + ROW_BYTES]))
            for start in range(0, len(content), ROW_BYTES)
        ]
        table = spark.createDataFrame(rows, "place int, content binary").coalesce(1)
        table.write.mode(mode).parquet(f"{path}/model")
        text = spark.createDataFrame([(json.dumps(metadata),)], "value string").coalesce(1)
        text.write.mode(mode).text(f"{path}/metadata")


class _Reader(MLReader[Any]):
    def __init__(self, cls: type) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        """Read an object of the class that this reader is of."""
        from fuzzytwin.store.files import from_bytes

        spark = self.sparkSession
        metadata = json.loads(spark.read.text(f"{path}/metadata").collect()[0][0])
        if metadata["class"] != _address(self.cls):
            raise ValueError(
                f"{path} holds a {metadata['class']}, not a {_address(self.cls)}; load it by that."
            )
        if metadata.get("format") != FORMAT:
            raise ValueError(
                f"{path} has format {metadata.get('format')}, this fuzzytwin reads {FORMAT}; save "
                "the model again."
            )
        rows = spark.read.parquet(f"{path}/model").orderBy("place").collect()
        model = from_bytes(b"".join(bytes(row["content"]) for row in rows), path)
        label_type = metadata["label_type"]
        instance = self.cls() if label_type is None else self.cls(model, label_type)
        values = metadata["columns"] | model.get_params(deep=False)
        given = {name: values.pop(name) for name in metadata["set"]}
        return instance.restore(metadata["uid"], given, values)


def _address(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"
