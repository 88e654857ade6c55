# vextract:template base/__package__/run/process.py - edit freely
"""What a run sets up in its process: quiet libraries, a faster import, event loops of its own, an end."""

import functools
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from ..errors import ConfigError

C = TypeVar("C", bound="Closing")

_READS_A_FOLDER = "create_import_structure_from_path"


def quiet() -> None:
    """Turn off the warnings that a run always causes, and that ask nothing of anybody."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if "TRANSFORMERS_VERBOSITY" not in os.environ:
        os.environ["TRANSFORMERS_VERBOSITY"] = "error"
        if "transformers" in sys.modules:  # a script has imported it before, when it read the variable
            from transformers.utils import logging as messages

            if messages.get_verbosity() == messages.WARNING:  # as it is unless the script says otherwise
                messages.set_verbosity_error()
    warnings.filterwarnings("ignore", message="In CPU autocast")  # float32 is meant: nothing is to be cast
    warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # the critic's values, which nothing changes
    warnings.filterwarnings("ignore", message="IProgress not found")  # transformers' bars, which are turned off
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # on CPUs it looks for kernels that are not needed
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)  # nested tensors ask in an old way


def import_transformers() -> None:
    """Import transformers, with all that it notes of its models kept until it needs it again.

    To know what its hundreds of models define, transformers reads all of their files when it is imported, and again
    when the first of them is: of what it found it keeps 128 folders, and there are more
    (`transformers.utils.import_utils`). Where it was imported before, or notes this otherwise, nothing is changed.
    """
    if "transformers" in sys.modules:
        return
    plain: Any = functools.lru_cache

    def keeping(maxsize: Any = 128, typed: bool = False) -> Any:
        if getattr(maxsize, "__name__", "") == _READS_A_FOLDER:  # it is the decorator itself
            return plain(maxsize=None)(maxsize)
        return plain(maxsize, typed)

    functools.lru_cache = keeping
    try:
        import transformers  # noqa: F401
    finally:
        functools.lru_cache = plain


@contextmanager
def without_running_loop() -> Iterator[None]:
    """Let what is called within it run event loops of its own, though this thread runs one.

    That one waits for the call to return in any case: a notebook's cell is a task of its loop. So hooks may call
    `asyncio.run` there, as anywhere.
    """
    import asyncio

    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


class Closing:
    """Is closed at the end of a `with` statement.

    Attributes:
        _end: ends what it began, once; it is also called when nothing holds the object.
    """

    _end: "weakref.finalize[Any, Any]"

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the rollout engine and what else runs beside this process. Calling it again does nothing."""
        with without_running_loop():
            self._end()

    def require_open(self) -> None:
        """Raise a ConfigError if it has been closed."""
        if not self._end.alive:
            name = type(self).__name__
            raise ConfigError(f"this {name} has been closed", f"make another {name}: what it ran on has ended")
