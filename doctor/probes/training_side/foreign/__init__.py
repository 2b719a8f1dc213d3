"""Reading what is the user's: objects, containers, values, lines and frames of their code."""

from typing import Any, Callable, Dict, Sequence

Foreign = Any
"""An object of the user's process, or of a library in it: what it has is not known, and reading it
may raise. The one alias of Any in the probes."""
Function = Callable[..., Foreign]
Types = Sequence[type]
Arguments = Sequence[Foreign]
Options = Dict[str, Foreign]
"""What a mode of torch gets: a function, the classes of its arguments, and the arguments."""
