# vextract:template - edit freely
"""Runs a server for as long as the trainer lives.

    python keeper.py TRAINER_PID SCRATCH_DIRECTORY COMMAND...

It stands between the two, in a session of its own, because a trainer that is killed with SIGKILL can clean up nothing:
when the trainer is gone, the server ends, then whatever it left running, and the directory is removed. Needs nothing
but Python, and imports nothing of this project.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from types import FrameType

INTERVAL_SECONDS = 0.2
GRACE_SECONDS = 15.0
REST_SECONDS = 3.0


def main(trainer: int, scratch: str, command: list[str]) -> None:
    """Run the command until it ends, the trainer ends, or a signal asks to stop; then end everything it started."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, note)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_keeper)
    while server.poll() is None and not asked and os.getppid() == trainer:
        time.sleep(INTERVAL_SECONDS)
    if server.poll() is None:
        if not asked:
            print("the trainer has ended: stopping the server", flush=True)
        server.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(INTERVAL_SECONDS)
    else:
        print(f"the server ended by itself, with exit code {server.returncode}", flush=True)
    shutil.rmtree(scratch, ignore_errors=True)
    deadline = time.monotonic() + REST_SECONDS
    while _others() and time.monotonic() < deadline:  # they clean up when they see that the server has ended
        time.sleep(INTERVAL_SECONDS / 4)
    os.killpg(0, signal.SIGKILL)  # the server's own processes, and this one


def _others() -> bool:
    """Tell whether the server has left processes in this one's group; where that cannot be seen, that it has."""
    if sys.platform != "linux":
        return True
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                    state, _, group = stat.read().rpartition(")")[2].split()[:3]
            except OSError:  # it has just ended
                continue
            if int(group) == os.getpgid(0) and state != "Z":
                return True
    return False


def _end_with_keeper() -> None:
    """Have Linux ask the server to end should this process be killed."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
