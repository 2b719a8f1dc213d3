"""The data that reach the model: what a target delivers, counted.

`look` is the program; `targets` and `files` open what the user named, `reading` takes rows within a
budget, `documents` makes rows of tokens comparable, and each remaining module counts for a few
checks. Content leaves the process with --show alone.
"""
