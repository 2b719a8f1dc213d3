"""Everything a run knows: records without thresholds, to and from JSON.

In: sections that `collect`, `log`, `script` and `pasted` fill, or a facts file of anyone.
Out: `Facts`, with views such as `job_gpus` that judges ask for by name.
A field says what was observed, in bytes and seconds unless its name says otherwise. None was not
read, `Unknown` could not be read and has the reason; an observed absence is 0, False, () or "".
Records are frozen, and decoding is strict. Fields are only ever added, with a default; `migrate`
reads older files. What a value means is for checks to say: no thresholds and no advice here.
"""
