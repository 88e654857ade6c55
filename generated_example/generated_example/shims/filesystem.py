# vextract:template shims/filesystem.py - edit freely
"""Paths of data and models: local files, or names on a model hub."""

from __future__ import annotations

from typing import Any

_REMOTE = ("hdfs://", "s3://", "gs://", "oss://")


def copy_to_local(src: str, cache_dir: str | None = None, *args: Any, use_shm: bool = False, **kwargs: Any) -> str:
    """Return `src` as it is: a local path, or a name that transformers resolves.

    Upstream fetches `hdfs://` paths here and can copy into shared memory; a standalone project reads its own disk.

    Raises:
        ValueError: `src` is a remote path.
    """
    if str(src).startswith(_REMOTE):
        raise ValueError(f"{src} is a remote path: copy it to this machine and give the local path instead")
    return str(src)
