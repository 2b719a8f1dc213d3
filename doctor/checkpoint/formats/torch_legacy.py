"""What torch.save wrote before 1.6: five pickles, and the storages behind them."""

from __future__ import annotations

from dataclasses import replace

from doctor._util.units import shown
from doctor.checkpoint.actions import all_actions
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_dtypes import ITEM, STORAGES
from doctor.checkpoint.formats.torch_objects import Tree
from doctor.checkpoint.io.file_type import describe_file_type, is_tar
from doctor.checkpoint.io.files import Source, prefetch
from doctor.checkpoint.pickle.nodes import Global, Persistent, Pickled, mapping
from doctor.checkpoint.pickle.reader import LARGEST, read_pickle
from doctor.checkpoint.records import Problem

MAGIC = 0x1950A86A20F9469CFC6C
"""The first of the pickles."""
VERSION = 1001

FIRST = 1024 * 1024
"""Read at once: the pickles of most files are shorter."""

WIDEST = 1 << 63

UNTYPED = (
    "is in torch's legacy form with storages of no type, as for uint16, float8 or complex32: "
    "torch 2.4 to 2.15 write such a file, and torch.load fails on it"
)
"""AttributeError: type object 'torch.storage.UntypedStorage' has no attribute 'dtype'."""


def legacy_tree(source: Source, file: str) -> Tree:
    """What a legacy file holds. Raises CheckpointError."""
    first = source.read(min(FIRST, source.size), 0)
    _recognised(first)
    try:
        pickled, keys = _pickles(first)
    except CheckpointError:
        if source.size <= len(first):
            raise
        pickled, keys = _pickles(source.read(min(LARGEST, source.size), 0))
    places, end = _places(source, pickled, keys)

    def place(key: str) -> tuple[int, int]:
        if key not in places:
            raise CheckpointError(
                "damaged", f"refers to a storage {shown(key)}, which is not in it"
            )
        return places[key]

    tree = Tree(source, file, pickled, place)
    if any(_is_untyped(reference) for reference in pickled.persistent):
        tree.add_problem("unloadable", UNTYPED)
    if end > source.size:
        tree.add_problem("damaged", f"is cut short: {source.size:,} of {end:,} bytes")
    elif end < source.size:
        text = f"has {source.size - end:,} bytes behind its last storage"
        tree.errors.append(Problem(kind="note", file=shown(file), text=text))
    return tree


def _is_untyped(reference: Persistent) -> bool:
    fields: object = reference.id
    kind = fields[1] if type(fields) is tuple and len(fields) > 1 else None
    return type(kind) is Global and kind.text.endswith(".UntypedStorage")


def _recognised(first: bytes) -> None:
    if not first:
        raise CheckpointError("damaged", "is empty")
    if is_tar(first):
        text = "is a tar archive, as torch.save wrote before 0.1.10: unsupported, as it cannot be "
        raise CheckpointError("not-inspectable", text + "inspected safely")
    if first[:1] == b"\x80":
        return
    if file_type := describe_file_type(first):
        raise CheckpointError("disguised", f"is {file_type}")
    raise CheckpointError(
        "damaged", "is not a file of torch.save: it begins as neither of its two forms"
    )


def _pickles(data: bytes) -> tuple[Pickled, Pickled]:
    """The pickle of the object and that of the storages' keys.

    torch.load unpickles all five, so the imports of all are those of the object's.
    """
    magic = read_pickle(data)
    if type(magic.value) is not int or magic.value != MAGIC:
        raise CheckpointError("not-inspectable", "is a pickle that torch.save did not write")
    version = read_pickle(data, magic.end)
    if type(version.value) is not int or version.value != VERSION:
        raise CheckpointError("not-inspectable", "is of an unknown version of torch's legacy form")
    system = read_pickle(data, version.end)
    if mapping(system.value).get("little_endian") is not True:
        raise CheckpointError("not-inspectable", "has big-endian numbers")
    pickled = read_pickle(data, system.end)
    keys = read_pickle(data, pickled.end)
    every = (magic, version, system, pickled, keys)
    names = dict.fromkeys(name for each in every for name in each.imports)
    nested = tuple(data for each in every for data in each.nested)
    actions = all_actions(each.actions for each in every)
    return replace(pickled, imports=tuple(names), nested=nested, actions=actions), keys


def _places(
    source: Source, pickled: Pickled, keys: Pickled
) -> tuple[dict[str, tuple[int, int]], int]:
    """Where each storage's bytes begin and how many they are; and where the last ends."""
    sizes = _storages(pickled.persistent)
    if type(keys.value) is not list:
        raise CheckpointError("damaged", "has no list of its storages")
    places: dict[str, tuple[int, int]] = {}
    counts: dict[str, int] = {}
    at = keys.end
    for key in keys.value:
        if type(key) is not str or key not in sizes or key in places:
            raise CheckpointError("damaged", "lists a storage twice, or one that no tensor has")
        count, item = sizes[key]
        counts[key] = count
        places[key] = (at + 8, count * item)
        at += 8 + count * item
    _agreeing(source, places, counts)
    return places, at


def _storages(references: tuple[Persistent, ...]) -> dict[str, tuple[int, int]]:
    """Elements and bytes of one, by the first mention of each storage."""
    sizes: dict[str, tuple[int, int]] = {}
    for reference in references:
        fields: object = reference.id
        if type(fields) is not tuple or len(fields) != 6 or fields[0] != "storage":
            continue
        _, kind, key, _, count, _ = fields
        dtype = STORAGES.get(kind.text) if type(kind) is Global else None
        if type(key) is not str or type(count) is not int or not 0 <= count < WIDEST:
            raise CheckpointError("damaged", "describes a storage without a key or a size")
        if dtype is None:
            class_name = shown(kind.text) if type(kind) is Global else "no global"
            raise CheckpointError("not-inspectable", f"has a storage of class {class_name}")
        sizes.setdefault(key, (count, ITEM[dtype]))
    return sizes


def _agreeing(source: Source, places: dict[str, tuple[int, int]], counts: dict[str, int]) -> None:
    """Each storage begins with its count of elements, which has to be what the pickle says."""
    headers = [(key, begin - 8) for key, (begin, _) in places.items() if begin <= source.size]
    prefetch(source, [(at, at + 8) for _, at in headers])
    for key, at in headers:
        count = int.from_bytes(source.read(8, at), "little", signed=True)
        if count != counts[key]:
            text = f"has a storage {shown(key)} whose size is not what its pickle says"
            raise CheckpointError("damaged", text)
