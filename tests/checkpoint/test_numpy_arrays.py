"""Arrays of objects in .npy and .npz files: what their pickles import is listed."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import numpy as np  # noqa: TID253
import pytest

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.numpy_arrays import MAGIC, pickle_offset
from doctor.checkpoint.scan import scan


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("true",)


def header(text: str, version: int = 1) -> bytes:
    data = text.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(data))
    return MAGIC + bytes([version, 0]) + length + data


def imports(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    checkpoint = scan(str(path))
    return checkpoint.loading.imports, checkpoint.loading.dangerous  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["npy", "npz", "compressed", "renamed"])
def test_an_array_of_objects_is_a_pickle(form: str, tmp_path: Path) -> None:
    values = np.array([Runs(), 1], dtype=object)
    path = tmp_path / f"values.{'npy' if form == 'npy' else 'npz'}"
    if form == "npy":
        np.save(path, values, allow_pickle=True)
    elif form == "npz":
        np.savez(path, plain=np.arange(3.0), values=values)
    elif form == "compressed":
        np.savez_compressed(path, values=values)
    else:
        np.save(tmp_path / "one.npy", values, allow_pickle=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(tmp_path / "one.npy", "values")  # numpy.load goes by the first bytes
    names, dangerous = imports(path)
    assert any(name.endswith("multiarray._reconstruct") for name in names)
    assert dangerous == (f"{os.system.__module__}.system",)


def test_plain_arrays_import_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", a=np.arange(3.0), b=np.zeros(2, dtype=[("Old", "<f4")]))
    assert imports(tmp_path / "plain.npz") == ((), ())


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n", True),
        ("{'descr': 'object', 'fortran_order': False, 'shape': (2,), }\n", True),
        ("{'descr': '\\x4f', 'fortran_order': False, 'shape': (2,), }\n", True),
        ("{'descr': [('a', [('b', '|O8')])], 'fortran_order': False, 'shape': (2,), }\n", True),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", False),
        ("{'descr': [('Oo', '<f4')], 'fortran_order': False, 'shape': (2,), }\n", False),
    ],
)
def test_the_dtype_of_a_header(text: str, objects: bool) -> None:
    for version in (1, 2, 3):
        data = header(text, version) + b"values"
        assert pickle_offset(data) == (len(data) - 6 if objects else None)


@pytest.mark.parametrize(
    "data",
    [MAGIC, MAGIC + b"\1\0\xff\xff{", header("(" * 5000), header("1 + "), header("x" * 10)],
    ids=["cut", "short", "nested", "no literal", "a name"],
)
def test_a_broken_header_is_no_acquittal(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        pickle_offset(data)
