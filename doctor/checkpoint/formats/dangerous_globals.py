"""Globals that are known to run commands or code, or to reach files and networks.

After the list `_unsafe_globals` of picklescan (src/picklescan/scanner.py at 05c3514, read on
2026-11-22; source "picklescan"), extended by modules of the same kind from Python's library. What
trainers' own pickles use is not on it: builtins.getattr (enumerations and bound methods),
functools.partial, operator.itemgetter. Such a list is never complete: a name that is missing here
is not thereby harmless.
"""

from __future__ import annotations

import sys

_MODULES = frozenset(
    {"os", "posix", "nt", "ntpath", "posixpath", "subprocess", "_posixsubprocess", "sys"}
    | {"shutil", "pty", "socket", "_socket", "ssl", "socketserver", "asyncio", "runpy"}
    | {"importlib", "_frozen_importlib", "_frozen_importlib_external", "imp", "pkgutil"}
    | {"zipimport", "ctypes", "_ctypes", "cffi", "webbrowser", "timeit", "cProfile", "pdb"}
    | {"bdb", "doctest", "pydoc", "pip", "ensurepip", "venv", "idlelib", "lib2to3", "distutils"}
    | {"http", "httplib", "urllib", "urllib2", "ftplib", "smtplib", "telnetlib", "xmlrpc"}
    | {"requests", "aiohttp", "httpx", "paramiko", "popen2", "pickle", "_pickle", "cPickle"}
    | {"marshal", "shelve", "codeop", "multiprocessing", "imaplib", "poplib", "nntplib"}
    | {"_aix_support", "_osx_support", "_pyrepl", "_interpreters", "_xxsubinterpreters"}
    | {"_posixshmem", "_testcapi", "_testinternalcapi", "_winapi", "winreg", "antigravity"}
    | {"cloudpickle", "dill", "mailbox", "pexpect", "pkg_resources", "rlcompleter"}
    | {"setuptools", "site", "sqlite3", "this", "turtledemo", "unittest", "wsgiref", "xdrlib"}
)
"""Top-level modules of which nothing belongs into a checkpoint."""

_HARMLESS = frozenset({"os.PathLike", "pickle.PickleBuffer", "asyncio.Lock", "sys.intern"})

_BUILTIN_MODULES = ("builtins", "__builtin__", "__builtins__")
_BUILTINS = frozenset(
    {"eval", "exec", "execfile", "compile", "__import__", "open", "file", "input"}
    | {"raw_input", "breakpoint", "globals", "locals", "vars", "delattr", "setattr", "apply"}
    | {"reload", "help", "filter", "map", "memoryview"}
)

_NAMES = frozenset(
    {"code.InteractiveInterpreter", "code.InteractiveConsole", "code.interact", "trace.Trace"}
    | {"profile.run", "profile.runctx", "profile.Profile", "dataclasses.make_dataclass"}
    | {"dataclasses._create_fn", "functools.reduce", "inspect.getattr_static"}
    | {"logging.config.dictConfig", "logging.config.fileConfig", "logging.config._resolve"}
    | {"numexpr.evaluate", "numexpr.necompiler.evaluate", "pandas.eval", "fabric.Connection"}
    | {"sched.scheduler", "sh.Command", "threading.Thread", "threading.Timer"}
    | {"types.BuiltinFunctionType", "types.LambdaType", "types.MethodType", "types.ModuleType"}
    | {"typing.ForwardRef", "typing._eval_type", "typing.get_type_hints", "weakref.finalize"}
    | {"commands.getoutput", "commands.getstatusoutput", "joblib.load"}
    | {"joblib.numpy_pickle.load", "dill.loads", "dill._dill.loads", "_io.open", "_io.FileIO"}
    | {"_io.open_code", "io.open", "io.FileIO", "io.open_code", "codecs.open"}
    | {"pathlib.Path.write_text", "pathlib.Path.write_bytes", "pathlib.Path.unlink"}
    | {"types.CodeType", "types.FunctionType", "logging.FileHandler", "logging.config.listen"}
    | {"operator.methodcaller", "operator.attrgetter", "numpy.load"}
    | {"numpy.f2py.crackfortran.getlincoef", "numpy.testing._private.utils.runstring"}
    | {"numpy.testing._private.utils.exec_mod_from_location", "torch.load"}
    | {"torch.serialization.load", "torch.jit.load"}
    | {"torch.jit.unsupported_tensor_ops.execWrapper", "torch.classes.load_library"}
    | {"torch.ops.load_library", "torch._dynamo.guards.GuardBuilder.get"}
    | {"torch._inductor.codecache.compile_file"}
    | {"torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression"}
    | {"torch.utils.collect_env.run", "torch.distributed.rpc.rpc_sync"}
    | {"torch.utils.data.datapipes.utils.decoder.basichandlers", "uuid._get_command_stdout"}
    | {"transformers.utils.import_utils.importlib", "pandas.read_pickle"}
    | {"pandas.io.pickle.read_pickle"}
    | {f"{module}.{name}" for name in _BUILTINS for module in _BUILTIN_MODULES}
)

_PREFIXES = (
    *("concurrent.futures.process.", "logging.handlers.", "pandas.core.computation."),
    *("pandas.io.", "sympy.parsing.", "test.libregrtest.", "test.support.", "test.test_"),
    *("torch._dynamo.", "torch._functorch.", "torch._inductor.", "torch._lazy.ts_backend."),
    *("torch.fx.", "torch.hub.", "torch.jit.frontend.", "torch.package.", "torch.testing."),
    *("torch.utils._config_module.", "torch.utils.cpp_extension.", "torch.utils.bottleneck."),
    *("torch.distributed.run.", "torch.distributed.launcher.", "numpy.testing."),
    *("numpy.distutils.", "numpy.f2py."),
)

_INSIDE = frozenset(
    {"os", "sys", "posix", "nt", "subprocess", "builtins", "__builtins__", "__builtin__"}
    | {"importlib", "runpy", "shutil", "pty", "ctypes", "__import__", "__dict__", "__base__"}
    | {"__bases__", "__class__", "__mro__", "dynamic_module_utils", "marshal", "pickle"}
    | {"socket", "__globals__", "__subclasses__", "__getattribute__", "__code__", "__loader__"}
    | {"system", "popen"}
)
"""Attributes by which a longer name, such as torch.serialization.os.system, reaches the same."""


_TWINS = {
    "posix": "os", "nt": "os", "posixpath": "os", "ntpath": "os", "_pyio": "io",
    "__builtin__": "builtins", "__builtins__": "builtins", "_pydatetime": "datetime",
    "_pydecimal": "decimal", "_thread": "threading",
}  # fmt: skip
"""Modules whose content another one shows, where its name is not that with an underscore."""


def public(name: str) -> str:
    """The name under its public module: _operator.attrgetter is operator.attrgetter."""
    top, dot, rest = name.partition(".")
    twin = _TWINS.get(top) or (top[1:] if top[:1] == "_" else "")
    return f"{twin}{dot}{rest}" if twin in sys.stdlib_module_names else name


def is_dangerous(name: str) -> bool:
    """Whether a global, "module.name", or its public twin is on the list, or its name is computed.

    Nothing that saves computes the name of a global.
    """
    return "(computed)" in name or _is_listed(name) or _is_listed(public(name))


def _is_listed(name: str) -> bool:
    if name in _HARMLESS:
        return False
    top, *rest = name.split(".")
    if top in _MODULES or name.startswith(_PREFIXES):
        return True
    whole = {name, name.rpartition(".")[0]}  # a class of the list, or a method of it
    return not (_NAMES.isdisjoint(whole) and _INSIDE.isdisjoint(rest))
