# vextract:template - edit freely
"""What a run says when it fails: one message, however many processes it has."""

import sys
import traceback
from typing import Any

from ..errors import ConfigError, DataError, full_disk
from ..settings.path_checks import CACHE, WRITTEN
from ..shims.not_vendored import FeatureNotVendored
from ..training.divergence import DivergenceError
from ..training.hook_errors import HookError, raised_in
from ..workers.rollout_interface import RolloutError
from .checkpoint_state import CheckpointError
from .distributed import Ranks
from .peers import HINT, is_connection_error


def report(error: BaseException, ranks: Ranks) -> int:
    """Say what went wrong, unless another process does.

    Returns:
        The exit code: 1 failed, 2 config or data are at fault, 130 interrupted.

    Raises:
        BaseException: the error itself, if it is none of the known ones and there is only this process.
    """
    code, text = describe(error)
    if ranks.peers is None:
        if text is None:
            raise error
    else:
        text = text or "".join(traceback.format_exception(error)).rstrip()
        text = f"{text}\n(on rank {ranks.rank} of {ranks.world_size})" if code == 1 else text
        if is_connection_error(error):
            reason = ranks.peers.explain(error)
            if reason is None:
                return code
            code, text = 1, f"error: {reason}\n{HINT}"
        elif getattr(error, "raised_by", ranks.rank) != ranks.rank or not ranks.peers.is_first_to_fail():
            return code
    print(text, file=sys.stderr, flush=True)
    return code


def add_note(error: BaseException, note: str) -> None:
    """Have `note` shown below the error, as `add_note` does, which Python has since 3.11."""
    error.__notes__ = [*notes_on(error), note]  # type: ignore[attr-defined]


def notes_on(error: BaseException) -> list[Any]:
    """Return what `add_note` has added."""
    return list(getattr(error, "__notes__", []))


def describe(error: BaseException) -> tuple[int, str | None]:
    """Exit code and text of an error that is not a bug; no text if it may be one, which needs its traceback."""
    notes = notes_on(error)
    if isinstance(error, KeyboardInterrupt):
        return 130, "\n".join(["interrupted", *notes])
    if isinstance(error, SystemExit):  # from code of the owner's, or a library's: not even 0 is success here
        text = f"error: the run was ended by sys.exit({'' if error.code is None else repr(error.code)})"
        return 1, "\n".join([text, f"  hook: {raised_in(error) or 'no line of this project'}", *notes])
    if isinstance(error, (ConfigError, DataError, FeatureNotVendored)):
        return 2, "\n".join([f"error: {error}", *notes])
    if isinstance(error, (HookError, RolloutError, CheckpointError, DivergenceError)):
        return 1, "\n".join([f"error: {error}", *notes])
    if full := full_disk(error):
        hint = f"make room, or take other directories: {', '.join((*WRITTEN, CACHE))}"
        return 1, "\n".join([f"error: {full}\nhint: {hint}", *notes])
    return 1, None
