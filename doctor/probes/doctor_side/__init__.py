"""Probes that run under the doctor's own interpreter: the driver, directories, checkpoints.

What comes in: arguments on the command line; each module has one `main` that takes them. What goes
out: notes as soon as something is known, because the next call may hang, and one answer or error.

A module may import the standard library and ..wire, and NVML's binding where it reads NVML;
checkpoint.py imports the doctor's checkpoint library. None imports another, and none imports torch:
a call of the driver that blocks or crashes takes one probe along and nothing else.
"""
