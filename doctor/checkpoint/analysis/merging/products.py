"""What adapters make of the rows of one weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.checkpoint.analysis.merging.adapter import Adapter, Factors
from doctor.checkpoint.analysis.merging.rows import matrix_of, read_rows
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.tensors import Tensor

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

LARGEST = 1 << 28
"""Elements of an adapter's factor that are read: a GiB as float32."""


@dataclass(slots=True)
class ColumnNorms:
    """Of base + product: DoRA divides by them where the weight is stored transposed."""

    squares: Any = None

    def add(self, turned: Array) -> None:
        """Rows that were not added before."""
        import numpy

        squares = numpy.square(turned, dtype="f8").sum(axis=0)
        self.squares = squares if self.squares is None else self.squares + squares


@dataclass(frozen=True, slots=True)
class Product:
    """left[rows] @ right, scaled; and the magnitudes of DoRA, one for each row or column."""

    left: Array
    right: Array
    magnitude: Array | None = None
    norms: ColumnNorms | None = None
    """Where the magnitudes are of columns."""
    half: str = ""
    """BF16 or F16 where the factors are stored so; the library rounds the product to it."""

    def delta(self, rows: Array) -> Array:
        return self.left[rows] @ self.right


@dataclass(frozen=True, slots=True)
class Part:
    """The factors of a module, and which part of the weight is the module's."""

    factors: Factors
    number: int = 0
    count: int = 1
    """Parts of the weight: 3 of one that fuses queries, keys and values."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a weight that one product belongs to."""

    begin: int
    end: int
    product: Product


@dataclass(frozen=True, slots=True)
class Update:
    """What one adapter does to one weight."""

    adapter: int
    """Its number on the command line."""
    pieces: tuple[Piece, ...]

    @property
    def half(self) -> str:
        return next((piece.product.half for piece in self.pieces if piece.product.half), "")

    @property
    def is_zero(self) -> bool:
        """Whether one of the two factors is zero everywhere, and no magnitude turns the weight."""
        return all(
            piece.product.magnitude is None
            and not (piece.product.left.any() and piece.product.right.any())
            for piece in self.pieces
        )

    def delta(self, base: Any, rows: Any) -> Any:
        """The change of the rows; `base` holds them. Rows of no piece do not change."""
        import numpy

        if len(self.pieces) == 1 and self.pieces[0].begin == 0 and rows.max() < self.pieces[0].end:
            return self._of(self.pieces[0], base, rows)
        change = numpy.zeros_like(base)
        for piece in self.pieces:
            inside = numpy.flatnonzero((rows >= piece.begin) & (rows < piece.end))
            if inside.size:
                change[inside] = self._of(piece, base[inside], rows[inside])
        return change

    def _of(self, piece: Piece, base: Any, rows: Any) -> object:
        import numpy

        rows = rows - piece.begin
        delta = piece.product.delta(rows)
        magnitude = piece.product.magnitude
        if magnitude is None:
            return delta
        turned = base + delta
        if piece.product.norms is not None:
            norms = numpy.sqrt(piece.product.norms.squares).astype("f4")
            return turned * (magnitude / numpy.where(norms == 0, 1, norms)) - base
        norms = numpy.linalg.norm(turned, axis=1)
        norms[norms == 0] = 1
        return turned * (magnitude[rows] / norms)[:, None] - base

    @property
    def column_norms(self) -> list[Product]:
        """Products that need the norms of all columns first."""
        products = (piece.product for piece in self.pieces)
        return [product for product in products if product.norms is not None]


def is_of_experts(factors: Factors, weight: Tensor) -> bool:
    """Whether the weight holds a matrix for each of several experts."""
    down = factors.down
    return len(weight.shape) == 3 and down is not None and len(down.shape) == 2


def weight_update(
    adapter: Adapter, number: int, factors: Factors, weight: Tensor, files: OpenFiles
) -> Update:
    """The update of a module's weight. Raises CheckpointError where the shapes do not fit."""
    down, up = _factor(files, factors.down), _factor(files, factors.up)
    scale = (factors.scale or 0.0) * adapter.weight
    half = _half(factors)
    if is_of_experts(factors, weight):
        return Update(number, _experts(down, up, scale, weight, half))
    left, right, turned = _oriented(adapter, factors, down, up, weight)
    magnitude, norms = None, None
    if factors.magnitude is not None:
        matrix = matrix_of(factors.magnitude)
        magnitude = read_rows(files, matrix, [(0, matrix.rows)]).reshape(-1)
        norms = ColumnNorms() if turned else None
        outputs = right.shape[1] if turned else len(left)
        if len(magnitude) != outputs:
            raise CheckpointError("damaged", f"{len(magnitude)} magnitudes for {outputs} outputs")
    product = Product(left * left.dtype.type(scale), right, magnitude, norms, half)
    return Update(number, (Piece(0, len(left), product),))


def _half(factors: Factors) -> str:
    dtypes = [tensor.dtype for tensor in (factors.down, factors.up) if tensor is not None]
    return next((dtype for dtype in dtypes if dtype in ("BF16", "F16")), "")


def _factor(files: OpenFiles, tensor: Tensor | None) -> Array:
    """A factor as a matrix: all dimensions but the first are its columns."""
    if tensor is None:
        raise CheckpointError("note", "one of the two factors is missing")
    matrix = matrix_of(tensor)
    if not matrix.readable or tensor.elements > LARGEST or len(tensor.shape) < 2:
        raise CheckpointError("note", f"a factor is stored as {tensor.dtype} {list(tensor.shape)}")
    return read_rows(files, matrix, [(0, matrix.rows)])


def _oriented(
    adapter: Adapter, factors: Factors, down: Array, up: Array, weight: Tensor
) -> tuple[Array, Array, bool]:
    """left and right, whose product has the weight's rows; and whether it is transposed."""
    rows = weight.shape[0] if weight.shape else 0
    columns = math.prod(weight.shape[1:])
    if up.shape[1] != down.shape[0]:
        text = f"lora_A has rank {down.shape[0]}, lora_B {up.shape[1]}"
        raise CheckpointError("damaged", text)
    plain = (up.shape[0], down.shape[1]) == (rows, columns)
    turned = (down.shape[1], up.shape[0]) == (rows, columns)
    transposed = factors.embedding or adapter.fan_in_fan_out
    if turned and (transposed or not plain):
        return down.T, up.T, True
    if not plain or factors.embedding:
        raise _misfit(up, down, weight)
    return up, down, False


def _misfit(up: Array, down: Array, weight: Tensor) -> CheckpointError:
    product = [up.shape[0], down.shape[1]]
    return CheckpointError("damaged", f"the product is {product}, the weight {list(weight.shape)}")


def _experts(down: Array, up: Array, scale: float, weight: Tensor, half: str) -> tuple[Piece, ...]:
    """A product for each expert of a three-dimensional parameter, over flattened rows."""
    experts, rows, columns = weight.shape
    if down.shape[0] % experts or up.shape[1] != down.shape[0]:
        raise _misfit(up, down, weight)
    rank = down.shape[0] // experts
    downs = down.reshape(experts, rank, down.shape[1])
    ups = up.reshape(up.shape[0], rank, experts)
    factor = down.dtype.type(scale)
    if (up.shape[0], down.shape[1]) == (rows, columns):
        pairs = [(ups[:, :, each] * factor, downs[each]) for each in range(experts)]
    elif (down.shape[1], up.shape[0]) == (rows, columns):
        pairs = [(downs[each].T * factor, ups[:, :, each].T) for each in range(experts)]
    else:
        raise _misfit(up, down, weight)
    return tuple(
        Piece(each * rows, (each + 1) * rows, Product(left, right, half=half))
        for each, (left, right) in enumerate(pairs)
    )


def part_update(
    adapter: Adapter, number: int, part: Part, weight: Tensor, files: OpenFiles
) -> Update:
    """The update of some rows of a fused weight, or of all. Raises CheckpointError."""
    if part.count < 2:
        return weight_update(adapter, number, part.factors, weight, files)
    rows = part.factors.up.shape[0] if part.factors.up is not None else 0
    # the parts behind the first have one size: keys and values, or gate and up
    begin = weight.shape[0] - (part.count - part.number) * rows if part.number else 0
    if begin < 0:
        raise CheckpointError("damaged", f"the part has {rows} rows of {weight.shape[0]}")
    whole = msgspec.structs.replace(weight, shape=(rows, *weight.shape[1:]))
    inner = weight_update(adapter, number, part.factors, whole, files)
    pieces = (Piece(begin + p.begin, begin + p.end, p.product) for p in inner.pieces)
    return Update(number, tuple(pieces))


def joined(updates: Sequence[Update]) -> list[Update]:
    """One for each adapter, of all the parts that it changes."""
    pieces: dict[int, tuple[Piece, ...]] = {}
    for update in updates:
        pieces[update.adapter] = (*pieces.get(update.adapter, ()), *update.pieces)
    return [Update(number, each) for number, each in pieces.items()]
