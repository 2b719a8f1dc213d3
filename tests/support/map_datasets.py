"""A dataset whose rows a function makes, for tests of the data probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset  # noqa: TID253


class Rows(Dataset):  # type: ignore[misc]
    """`row(number)` for each of `size` numbers; `held` are attributes, as of a dataset's tables."""

    def __init__(self, size: int, row: Callable[[int], Any], **held: Any) -> None:
        self.size, self.row = size, row
        self.__dict__.update(held)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> Any:
        return self.row(number)
