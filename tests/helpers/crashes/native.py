"""What libraries write by themselves: one call each, which fails as the library's own would."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import safetensors.numpy
import safetensors.torch
from numpy.lib import _format_impl
from safetensors import SafetensorError

_SERIALIZE = safetensors.numpy.serialize_file
_truncate = os.truncate
_PARQUET = pq.ParquetWriter


def native_patches(disk):
    """(module, name, replacement); numpy writes its arrays through Python here."""

    def serialize(tensors, filename, metadata=None):
        path = os.path.abspath(filename)

        def part():  # it writes beside the target and renames
            beside = Path(path).with_name(".tmpPARTLY")
            _SERIALIZE(tensors, beside, metadata)
            _truncate(beside, beside.stat().st_size // 2)

        try:
            do = lambda: _SERIALIZE(tensors, filename, metadata)  # noqa: E731
            return disk.meet("library write", path, do, part)
        except OSError as error:
            said = f"I/O error: {error.strerror} (os error {error.errno})"
            raise SafetensorError(f"Error while serializing: {said}") from None

    class Parquet:
        """A writer whose opening, row groups and end are met."""

        def __init__(self, where, schema, **options):
            self._path, self._writer = str(where), None
            do = lambda: _PARQUET(where, schema, **options)  # noqa: E731
            self._writer = disk.meet("create", self._path, do, drop=_PARQUET.close)

        def write_table(self, *given, **options):
            do = lambda: self._writer.write_table(*given, **options)  # noqa: E731
            return disk.meet("library write", self._path, do)

        def close(self):
            try:
                disk.meet("library write", self._path, lambda: None)
            except BaseException:  # the file handle goes, and the file ends in the middle
                self._writer.close()
                _truncate(self._path, os.path.getsize(self._path) // 2)
                raise
            self._writer.close()

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.close()

    yield safetensors.numpy, "serialize_file", serialize
    yield safetensors.torch, "serialize_file", serialize
    yield pq, "ParquetWriter", Parquet
    yield _format_impl, "isfileobj", lambda stream: False
