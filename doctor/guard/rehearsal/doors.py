"""The known ways out: what would upload is refused, recorded, and answered as if it had worked.

A refusal that raised would end the job at its first upload, and nothing after it were rehearsed.
Where an answer cannot be made up (S3, file systems), the call raises.
"""

from __future__ import annotations

import functools
from concurrent.futures import Future
from typing import Callable

from ..foreign import Foreign
from .audit import Report
from .imports import after_import

HUB_ADDRESS = "https://huggingface.co/"
HUB_UPLOADS = (
    "upload_file", "upload_folder", "upload_large_folder", "create_commit", "create_repo",
    "create_branch", "create_tag", "create_pull_request", "create_discussion", "delete_repo",
    "delete_file", "delete_files", "delete_folder", "delete_branch", "delete_tag", "move_repo",
    "update_repo_settings", "super_squash_history", "add_space_secret",
)  # fmt: skip
S3_CHANGES = ("Put", "Create", "Delete", "Upload", "Complete", "Copy", "Restore")
LOCAL_PROTOCOLS = {"file", "local", "memory"}


class UploadRefused(PermissionError):
    """Raised where a refused upload has no answer."""


def install(report: Report) -> None:
    """Refuse at every door that the process imports."""
    after_import(
        {
            "huggingface_hub.hf_api": lambda module: _hub(module, report),
            "wandb": lambda module: _wandb(module, report),
            "mlflow": lambda module: _mlflow(module, report),
            "comet_ml": lambda module: _comet(module, report),
            "botocore.client": lambda module: _botocore(module, report),
            "fsspec.spec": lambda module: _fsspec(module, report),
        }
    )


def _hub(module: Foreign, report: Report) -> None:
    api = module.HfApi
    for name in HUB_UPLOADS:
        original = api.__dict__.get(name)
        if original is None:
            continue
        setattr(api, name, _hub_upload(module, name, original, report))
        bound: Foreign = getattr(module, name, None)
        if getattr(bound, "__self__", None) is not None:  # the function of the same name
            setattr(module, name, getattr(bound.__self__, name))


def _hub_upload(
    module: Foreign, name: str, original: Callable[..., Foreign], report: Report
) -> Callable[..., Foreign]:
    @functools.wraps(original)
    def refused(self: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        repository = str(kwargs.get("repo_id") or (args[0] if args else "") or "repository")
        report("upload", f"huggingface_hub.{name}", repository)
        answer = _hub_answer(module, name, repository)
        if not kwargs.get("run_as_future"):
            return answer
        future: Future[Foreign] = Future()
        future.set_result(answer)
        return future

    return refused


def _hub_answer(module: Foreign, name: str, repository: str) -> Foreign:
    if name == "create_repo":
        return module.RepoUrl(HUB_ADDRESS + repository)
    if name.startswith(("upload", "create_commit", "delete_f")):
        address = f"{HUB_ADDRESS}{repository}/commit/{'0' * 40}"
        return module.CommitInfo(
            commit_url=address, commit_message="", commit_description="", oid="0" * 40
        )
    return None


def _wandb(module: Foreign, report: Report) -> None:
    original = module.init

    @functools.wraps(original)
    def init(*args: Foreign, **kwargs: Foreign) -> Foreign:
        if kwargs.get("mode") not in ("disabled", "offline"):
            report("upload", "wandb.init", str(kwargs.get("project") or ""))
        kwargs["mode"] = "disabled"
        return original(*args, **kwargs)

    module.init = init


def _mlflow(module: Foreign, report: Report) -> None:
    original = module.set_tracking_uri

    @functools.wraps(original)
    def set_tracking_uri(uri: Foreign) -> None:
        if "://" in str(uri) and not str(uri).startswith("file:"):
            report("upload", "mlflow.set_tracking_uri", str(uri))
            return  # the variable of the environment names a directory
        original(uri)

    module.set_tracking_uri = set_tracking_uri


def _comet(module: Foreign, report: Report) -> None:
    for name in ("Experiment", "ExistingExperiment"):
        kind = getattr(module, name, None)
        if kind is not None:
            original = kind.__init__

            def begin(self: Foreign, *args: Foreign, _original: Foreign = original,
                      _name: str = name, **kwargs: Foreign) -> None:  # fmt: skip
                report("upload", f"comet_ml.{_name}", str(kwargs.get("project_name") or ""))
                _original(self, *args, **{**kwargs, "disabled": True})

            kind.__init__ = begin


def _botocore(module: Foreign, report: Report) -> None:
    original = module.BaseClient._make_api_call

    @functools.wraps(original)
    def call(self: Foreign, operation: str, parameters: Foreign) -> Foreign:
        if not operation.startswith(S3_CHANGES):
            return original(self, operation, parameters)
        place = "/".join(str(parameters.get(key, "")) for key in ("Bucket", "Key"))
        report("upload", f"s3 {operation}", place)
        raise UploadRefused(f"doctor rehearse refuses uploads: {operation} {place}")

    module.BaseClient._make_api_call = call


def _fsspec(module: Foreign, report: Report) -> None:
    def refuse(self: Foreign, what: str, path: Foreign) -> None:
        protocol = self.protocol if isinstance(self.protocol, str) else self.protocol[0]
        if protocol not in LOCAL_PROTOCOLS:
            place = f"{protocol}://{path}"
            report("upload", f"fsspec {what}", place)
            raise UploadRefused(f"doctor rehearse refuses uploads: {what} {place}")

    kind = module.AbstractFileSystem
    original = kind.open

    @functools.wraps(original)
    def open_(
        self: Foreign, path: Foreign, mode: str = "rb", *args: Foreign, **kwargs: Foreign
    ) -> Foreign:
        if any(letter in mode for letter in "wax+"):
            refuse(self, f"open({mode})", path)
        return original(self, path, mode, *args, **kwargs)

    kind.open = open_
    for name, place in (("put", 1), ("rm", 0), ("mv", 1), ("pipe", 0)):
        setattr(kind, name, _refusing(kind.__dict__[name], name, place, refuse))


def _refusing(original: Foreign, name: str, place: int, refuse: Foreign) -> Foreign:
    @functools.wraps(original)
    def call(self: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        refuse(self, name, args[place] if len(args) > place else "")
        return original(self, *args, **kwargs)

    return call
