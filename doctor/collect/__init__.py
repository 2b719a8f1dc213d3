"""Looking at the machine: each probe in a child process, and what came of it as sections.

In: `Job`, `RunOptions` and `Expect`.
Out: `Facts`.
`session` starts everything that can run at once, `collect` calls the stages in order. `child` is
one process with a deadline, `children` all of them; `torch_child` asks the training interpreter.
How a process ended is recorded, never raised.
Imports neither torch nor pynvml, and no checks: judging what was observed is not done here.
"""
