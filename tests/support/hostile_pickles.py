"""Pickles that would run code when they are unpickled, by what they call and how they hide it.

Nothing here is ever unpickled by a test. What they call is harmless all the same: a process id, an
expression, a name. `mutants()` puts every gadget into every disguise, and each into a file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Gadget(NamedTuple):
    """A function that runs what it is given, and an argument for it."""

    module: str
    name: str
    argument: str = "1"


GADGETS = (
    Gadget("os", "system", "true"),
    Gadget("posix", "system", "true"),
    Gadget("nt", "system", "true"),
    Gadget("subprocess", "getoutput", "true"),
    Gadget("_posixsubprocess", "fork_exec"),
    Gadget("builtins", "eval"),
    Gadget("builtins", "exec"),
    Gadget("__builtin__", "eval"),
    Gadget("_io", "open", "/dev/null"),
    Gadget("_operator", "methodcaller", "upper"),
    Gadget("_operator", "attrgetter", "real"),
    Gadget("_functools", "reduce"),
    Gadget("_pickle", "loads"),
    Gadget("_codecs", "decode"),
    Gadget("_sqlite3", "connect", ":memory:"),
    Gadget("_ctypes", "dlopen"),
    Gadget("_imp", "create_builtin"),
    Gadget("_thread", "start_new_thread"),
    Gadget("importlib", "import_module", "this"),
    Gadget("runpy", "run_module", "this"),
    Gadget("code", "interact"),
    Gadget("timeit", "timeit"),
    Gadget("unittest.mock", "_importer", "this"),
    Gadget("test.libregrtest.utils", "run"),
    Gadget("rlcompleter", "Completer.attr_matches", "a.b"),
    Gadget("logging.config", "_resolve", "this"),
    Gadget("dataclasses", "_create_fn", "f"),
    Gadget("sqlite3", "connect", ":memory:"),
    Gadget("site", "main"),
    Gadget("typing", "ForwardRef._evaluate"),
    Gadget("zipfile", "ZipFile", "/dev/null"),
    Gadget("tempfile", "mkdtemp"),
    Gadget("linecache", "getline", "/etc/hostname"),
    Gadget("fileinput", "FileInput", "/etc/hostname"),
    Gadget("setuptools._distutils.spawn", "spawn"),
    Gadget("torch.fx.graph_module", "_forward_from_src"),
    Gadget("torch.fx.graph_module", "reduce_graph_module"),
    Gadget("torch._inductor.codecache", "PyCodeCache.load"),
    Gadget("torch._dynamo.guards", "GuardBuilder.get"),
    Gadget("torch.serialization", "os.system", "true"),
    Gadget("torch.utils.data", "random_split"),
    Gadget("torch.utils.model_zoo", "load_url", "http://127.0.0.1:9/x"),
    Gadget("transformers.dynamic_module_utils", "get_class_from_dynamic_module", "x"),
    Gadget("transformers.utils.hub", "cached_file", "x"),
    Gadget("transformers", "pipeline", "x"),
    Gadget("numpy", "load", "/dev/null"),
    Gadget("numpy", "fromfile", "/dev/null"),
    Gadget("numpy.lib._npyio_impl", "genfromtxt", "/dev/null"),
    Gadget("pandas", "eval"),
    Gadget("pandas", "read_pickle", "/dev/null"),
    Gadget("sympy.parsing.sympy_parser", "eval_expr"),
    Gadget("cloudpickle.cloudpickle", "_make_function"),
    Gadget("dill._dill", "_create_function"),
    Gadget("joblib", "load", "/dev/null"),
    Gadget("huggingface_hub", "hf_hub_download", "x"),
)


def text(value: str) -> bytes:
    """BINUNICODE."""
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def line_global(gadget: Gadget) -> bytes:
    return f"c{gadget.module}\n{gadget.name}\n".encode()


def stack_global(gadget: Gadget) -> bytes:
    return text(gadget.module) + text(gadget.name) + b"\x93"


def reduced(gadget: Gadget) -> bytes:
    return line_global(gadget) + text(gadget.argument) + b"\x85R0"


def reduced_by_stack(gadget: Gadget) -> bytes:
    return stack_global(gadget) + text(gadget.argument) + b"\x85R0"


def with_two_arguments(gadget: Gadget) -> bytes:
    return line_global(gadget) + b"(" + text(gadget.argument) + b"NtR0"


def instance(gadget: Gadget) -> bytes:
    return b"(" + text(gadget.argument) + f"i{gadget.module}\n{gadget.name}\n0".encode()


def obj(gadget: Gadget) -> bytes:
    return b"(" + line_global(gadget) + text(gadget.argument) + b"o0"


def new_object(gadget: Gadget) -> bytes:
    """A class that is made and then called as an object."""
    return line_global(gadget) + text(gadget.argument) + b"\x85\x81" + b")R0"


def in_memo(gadget: Gadget) -> bytes:
    return line_global(gadget) + b"q\x05" + b"0" + b"h\x05" + text(gadget.argument) + b"\x85R0"


def by_getattr(gadget: Gadget) -> bytes:
    """The last word of the name by getattr of what comes before it."""
    owner, dot, last = gadget.name.rpartition(".")
    if not dot:
        parent, _, child = gadget.module.rpartition(".")
        owner, last = child or gadget.module, gadget.name
        first = Gadget(parent or "torch.serialization", owner)
    else:
        first = Gadget(gadget.module, owner)
    return (
        b"cbuiltins\ngetattr\n" + line_global(first) + text(last) + b"\x86R"
        + text(gadget.argument) + b"\x85R0"
    )  # fmt: skip


def by_partial(gadget: Gadget) -> bytes:
    """functools.partial of it, which is then called."""
    return b"cfunctools\npartial\n" + line_global(gadget) + b"\x85R" + text("1") + b"\x85R0"


def by_map(gadget: Gadget) -> bytes:
    return (
        b"cbuiltins\nlist\ncbuiltins\nmap\n" + line_global(gadget)
        + b"](" + text(gadget.argument) + b"e\x86R\x85R0"
    )  # fmt: skip


def computed_module(gadget: Gadget) -> bytes:
    return (
        b"cbuiltins\nstr\n" + text(gadget.module) + b"\x85R" + text(gadget.name) + b"\x93"
        + text(gadget.argument) + b"\x85R0"
    )  # fmt: skip


def computed_name(gadget: Gadget) -> bytes:
    rotated = text(gadget.name) + text("utf-8")
    return (
        text(gadget.module) + b"c_codecs\nencode\n" + rotated + b"\x86R"
        + b"cbuiltins\nstr\n" + text("x") + b"\x85R0" + b"0"
        + b"cbuiltins\nstr\n" + text(gadget.name) + b"\x85R" + b"\x93"
        + text(gadget.argument) + b"\x85R0"
    )  # fmt: skip


def changed(gadget: Gadget) -> bytes:
    """BUILD on what was imported overwrites its attributes."""
    return line_global(gadget) + b"}" + text("__doc__") + text("x") + b"sb0"


def item_set(gadget: Gadget) -> bytes:
    return line_global(gadget) + text("key") + text("x") + b"s0"


DISGUISES: tuple[Callable[[Gadget], bytes], ...] = (
    reduced,
    reduced_by_stack,
    with_two_arguments,
    instance,
    obj,
    new_object,
    in_memo,
    by_getattr,
    by_partial,
    by_map,
    computed_module,
    computed_name,
    changed,
    item_set,
)


# Containers: the bytes of a file that holds a payload.


def plain(payload: bytes) -> bytes:
    return b"\x80\x04" + payload + b"}."


def old_protocol(payload: bytes) -> bytes:
    return payload + b"(d."


def torch_zip(payload: bytes, packing: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        archive.writestr("m/data.pkl", b"\x80\x02" + payload + b"}.")
        archive.writestr("m/version", b"3\n")
    return file.getvalue()


def deflated_zip(payload: bytes) -> bytes:
    return torch_zip(payload, zipfile.ZIP_DEFLATED)


def second_pickle(payload: bytes) -> bytes:
    return b"\x80\x02}." + b"\x80\x02" + payload + b"}."


def second_in_zip(payload: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}.\x80\x02" + payload + b"}.")
    return file.getvalue()


def extra_record(payload: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}.")
        archive.writestr("m/extra", b"\x80\x02" + payload + b"}.")
    return file.getvalue()


def prefixed_zip(payload: bytes) -> bytes:
    return b"#!/bin/sh\n" + torch_zip(payload)


def squeezed(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda payload: pack(plain(payload))


def broken_behind(payload: bytes) -> bytes:
    return b"\x80\x04" + payload + b"\xff\xff"


def legacy(payload: bytes) -> bytes:
    values: tuple[Any, ...] = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    head = b"".join(pickle.dumps(value, 2) for value in values)
    return head + b"\x80\x02" + payload + b"}." + pickle.dumps([], 2)


def inside_torch_load(payload: bytes) -> bytes:
    inner = legacy(payload)
    size = struct.pack("<I", len(inner))
    return b"\x80\x04ctorch.storage\n_load_from_bytes\nB" + size + inner + b"\x85R."


def unknown_protocol(payload: bytes) -> bytes:
    return b"\x80\xff" + payload + b"}."


CONTAINERS: tuple[Callable[[bytes], bytes], ...] = (
    plain,
    old_protocol,
    torch_zip,
    deflated_zip,
    second_pickle,
    second_in_zip,
    extra_record,
    prefixed_zip,
    squeezed(gzip.compress),
    squeezed(bz2.compress),
    squeezed(lzma.compress),
    squeezed(lambda data: lzma.compress(data, lzma.FORMAT_ALONE)),
    squeezed(zlib.compress),
    broken_behind,
    legacy,
    inside_torch_load,
    unknown_protocol,
)

FILES = (
    "training_args.bin",
    "rng_state.pth",
    "scheduler.pt",
    "scaler.pt",
    "random_states_0.pkl",
    "scheduler.bin",
    "custom_checkpoint_0.pkl",
    "optimizer.pt",
    "pytorch_model.bin",
    "features.pkl",
    "scaler.joblib",
)


class Mutant(NamedTuple):
    """One file that runs code if its loader unpickles it."""

    label: str
    file: str
    data: bytes


def mutants() -> Iterator[Mutant]:
    """Every gadget in every disguise, and every gadget in every container, in turn of the files."""
    number = 0
    for gadget in GADGETS:
        pairs = [(disguise, plain) for disguise in DISGUISES]
        pairs += [(reduced, container) for container in CONTAINERS]
        for disguise, container in pairs:
            name = f"{gadget.module}.{gadget.name} {disguise.__name__} {container.__name__}"
            file = FILES[number % len(FILES)]
            number += 1
            yield Mutant(f"{name} in {file}", file, container(disguise(gadget)))
