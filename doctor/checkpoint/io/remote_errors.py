"""Errors of remote file systems, as CheckpointErrors of one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.urls import describe_error

PACKAGES = {
    "http": "fsspec and aiohttp (pip install 'fsspec[http]')",
    "https": "fsspec and aiohttp (pip install 'fsspec[http]')",
    "s3": "s3fs (pip install s3fs)",
    "gs": "gcsfs (pip install gcsfs)",
    "gcs": "gcsfs (pip install gcsfs)",
    "hf": "huggingface_hub (pip install huggingface_hub)",
    "az": "adlfs (pip install adlfs)",
    "abfs": "adlfs (pip install adlfs)",
}
"""Scheme -> the package that reads it."""


@contextlib.contextmanager
def remote_errors(scheme: str) -> Iterator[None]:
    """Turn any error of a remote file system into a CheckpointError without secrets."""
    try:
        yield
    except CheckpointError:
        raise
    except ImportError as error:
        needs = PACKAGES.get(scheme, f"a package that is not installed ({describe_error(error)})")
        raise CheckpointError(
            "not-inspectable", f"cannot be read: {scheme}:// needs {needs}"
        ) from None
    except FileNotFoundError:
        raise CheckpointError("missing", "is missing") from None
    except PermissionError:
        raise CheckpointError("not-inspectable", "cannot be read: access is denied") from None
    except TimeoutError:
        raise CheckpointError("not-inspectable", "cannot be read: no answer in time") from None
    except Exception as error:  # cloud libraries raise their own types
        if "NotFound" in type(error).__name__:
            raise CheckpointError("missing", f"is missing ({describe_error(error)})") from None
        raise CheckpointError(
            "not-inspectable", f"cannot be read: {describe_error(error)}"
        ) from None
