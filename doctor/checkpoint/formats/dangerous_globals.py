"""Globals that are known to run commands or code, or to reach files and networks.

After the list `_unsafe_globals` of picklescan (src/picklescan/scanner.py at 05c3514, read on
2026-11-22; source "picklescan"), extended by modules of the same kind from Python's library. What
trainers' own pickles use is not on it: builtins.getattr (enumerations and bound methods),
functools.partial, operator.itemgetter. Such a list is never complete: a name that is missing here
is not thereby harmless.
"""

from __future__ import annotations

_MODULES = frozenset(
    [
        "os",
        "posix",
        "nt",
        "ntpath",
        "posixpath",
        "subprocess",
        "_posixsubprocess",
        "sys",
        "shutil",
        "pty",
        "socket",
        "_socket",
        "ssl",
        "socketserver",
        "asyncio",
        "runpy",
        "importlib",
        "_frozen_importlib",
        "_frozen_importlib_external",
        "imp",
        "pkgutil",
        "zipimport",
        "ctypes",
        "_ctypes",
        "cffi",
        "webbrowser",
        "timeit",
        "cProfile",
        "pdb",
        "bdb",
        "doctest",
        "pydoc",
        "pip",
        "ensurepip",
        "venv",
        "idlelib",
        "lib2to3",
        "distutils",
        "http",
        "httplib",
        "urllib",
        "urllib2",
        "ftplib",
        "smtplib",
        "telnetlib",
        "xmlrpc",
        "requests",
        "aiohttp",
        "httpx",
        "paramiko",
        "popen2",
        "pickle",
        "_pickle",
        "cPickle",
        "marshal",
        "shelve",
        "codeop",
        "multiprocessing",
        "imaplib",
        "poplib",
        "nntplib",
        "_aix_support",
        "_osx_support",
        "_pyrepl",
        "_interpreters",
        "_xxsubinterpreters",
    ]
)
"""Top-level modules of which nothing belongs into a checkpoint."""

_HARMLESS = frozenset({"os.PathLike", "pickle.PickleBuffer", "asyncio.Lock"})

_NAMES = frozenset(
    {
        *(
            f"{module}.{name}"
            for module in ("builtins", "__builtin__", "__builtins__")
            for name in (
                "eval",
                "exec",
                "execfile",
                "compile",
                "__import__",
                "open",
                "file",
                "input",
                "raw_input",
                "breakpoint",
                "globals",
                "locals",
                "vars",
                "delattr",
                "setattr",
                "apply",
                "reload",
                "help",
            )
        ),
        "code.InteractiveInterpreter",
        "code.InteractiveConsole",
        "code.interact",
        "trace.Trace",
        "profile.run",
        "profile.runctx",
        "profile.Profile",
        "commands.getoutput",
        "commands.getstatusoutput",
        "joblib.load",
        "joblib.numpy_pickle.load",
        "dill.loads",
        "dill._dill.loads",
        "_io.open",
        "_io.FileIO",
        "_io.open_code",
        "io.open",
        "io.FileIO",
        "io.open_code",
        "codecs.open",
        "pathlib.Path.write_text",
        "pathlib.Path.write_bytes",
        "pathlib.Path.unlink",
        "types.CodeType",
        "types.FunctionType",
        "logging.FileHandler",
        "logging.config.listen",
        "operator.methodcaller",
        "operator.attrgetter",
        "numpy.load",
        "numpy.f2py.crackfortran.getlincoef",
        "numpy.testing._private.utils.runstring",
        "numpy.testing._private.utils.exec_mod_from_location",
        "torch.load",
        "torch.serialization.load",
        "torch.jit.load",
        "torch.jit.unsupported_tensor_ops.execWrapper",
        "torch.classes.load_library",
        "torch.ops.load_library",
        "torch._dynamo.guards.GuardBuilder.get",
        "torch._inductor.codecache.compile_file",
        "torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression",
        "torch.utils._config_module.load_config",
        "torch.utils._config_module.ConfigModule.load_config",
        "torch.utils.collect_env.run",
        "torch.distributed.rpc.rpc_sync",
        "torch.utils.data.datapipes.utils.decoder.basichandlers",
        "uuid._get_command_stdout",
        "transformers.utils.import_utils.importlib",
        "pandas.read_pickle",
        "pandas.io.pickle.read_pickle",
    }
)

_PREFIXES = (
    "test.support.",
    "torch.hub.",
    "torch.utils.cpp_extension.",
    "torch.utils.bottleneck.",
    "torch.distributed.run.",
    "torch.distributed.launcher.",
    "numpy.testing.",
    "numpy.distutils.",
    "numpy.f2py.",
)

_INSIDE = frozenset(
    [
        "os",
        "sys",
        "posix",
        "nt",
        "subprocess",
        "builtins",
        "__builtins__",
        "__builtin__",
        "importlib",
        "runpy",
        "shutil",
        "pty",
        "ctypes",
        "__import__",
        "__globals__",
        "__subclasses__",
        "__getattribute__",
        "__code__",
        "__loader__",
        "system",
        "popen",
    ]
)
"""Attributes by which a longer name, such as torch.serialization.os.system, reaches the same."""


def is_dangerous(name: str) -> bool:
    """Whether a global, "module.name", is on the list."""
    if name in _HARMLESS:
        return False
    top, *rest = name.split(".")
    if top in _MODULES or name.startswith(_PREFIXES):
        return True
    whole = {name, name.rpartition(".")[0]}  # a class of the list, or a method of it
    return not (_NAMES.isdisjoint(whole) and _INSIDE.isdisjoint(rest))
