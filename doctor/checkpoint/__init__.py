"""Readers of checkpoints: headers, values and norms, with the standard library and numpy.

In: a path or an address, which may be hostile.
Out: `records`, such as `Checkpoint`; what is wrong with a file is a `Problem` in them, not an
error. `io` opens files and addresses, `formats` reads one kind of file, `layouts` a directory of
them, `pickle` reads pickles without executing them, `analysis` looks at values. `scan` and
`reader` put it together. A library of its own: it imports `_util` and nothing else of the doctor,
and never torch.
"""
