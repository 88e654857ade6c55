"""What launch scripts start when bash runs them: each command's words and environment, and nothing is started.

A script runs in namespaces of its own (`unshare`: Linux, without a network), in a root of which it can change nothing
but a copy of its checkout and empty directories. Programs that train, install or fetch are stand-ins there, and so is
every command that the machine does not have: they write down what they were called with, and succeed.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = "/home/nobody"
# What is on a machine, perhaps, and is not to do anything.
STAND_INS = (
    *("accelerate", "conda", "curl", "deepspeed", "docker", "git", "hf", "huggingface-cli", "make", "modelscope"),
    *("nohup", "nvidia-smi", "pip", "pip3", "pkill", "kill", "python", "python3", "ray", "sbatch", "scp", "sleep"),
    *("srun", "ssh", "sudo", "torchrun", "uv", "wandb", "wget"),
)
# What a script for a cluster finds set, and may not go on without: one machine.
_IN_A_JOB = {"SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1"}
# Looking for other accelerators fails, as it does on a machine without them.
_RECORDED = """#!/bin/bash
at=/record/$(printf %06d $(ls /record | wc -l))-$$
printf '%s\\0' "${0##*/}" "$@" > $at.words
env -0 > $at.environment
case "$*" in *torch_npu*) exit 1;; esac
exit 0
"""
_NOT_FOUND = """command_not_found_handle() { /stubs/any "$@"; }
"""
# Folders that only its owner's machine has stop no script that goes on.
_GOES_ON = """cd() { builtin cd "$@" 2>/dev/null || true; }
mkdir() { command mkdir "$@" 2>/dev/null || true; }
"""
_STOPS = r"s/^(\s*)set +-[a-zA-Z].*$/\1true/"
_RUN = r"""set -e
R=$1; ROOT=$2; RECORD=$3; STUBS=$4; SECONDS_=$5; SEEN=$6; SCRIPT=$7; EDIT=$8; shift 8
mount -t tmpfs none "$R"
mkdir -p "$R"/{usr,etc,dev,tmp,root,record,stubs} "$R/home/nobody"
for at in usr bin lib lib64 sbin; do
    if [ -L /$at ]; then cp -a /$at "$R/$at"
    elif [ -d /$at ]; then mkdir -p "$R/$at"; mount --bind /$at "$R/$at"; mount -o remount,bind,ro "$R/$at"; fi
done
mount --rbind /dev "$R/dev"
mount --bind "$RECORD" "$R/record"
while read -r at; do
    if [ -d "$at" ]; then mkdir -p "$R$at"; mount --rbind "$at" "$R$at"; mount -o remount,bind,ro "$R$at"; fi
done <<< "$SEEN"
mkdir -p "$R$ROOT"
cp -a "$ROOT/." "$R$ROOT/"
cp -a "$STUBS/." "$R/stubs/"
[ -z "$EDIT" ] || sed -i -E "$EDIT" "$R$SCRIPT"
cd "$R$ROOT"
exec timeout "$SECONDS_" chroot "$R" /usr/bin/env PATH=/stubs:/usr/bin:/bin BASH_ENV=/stubs/env.sh "$@"
"""
_STARTED = r'cd "$1" && bash "$2"; /usr/bin/sleep 0.5'


@dataclass(frozen=True)
class Started:
    """A command as bash would have started it.

    Attributes:
        words: The program and its arguments.
        environment: What it would have seen.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]


def run(
    script: Path,
    root: Path,
    variables: Mapping[str, str],
    seconds: int = 20,
    exports: bool = False,
    goes_on: bool = False,
) -> list[Started]:
    """Return what a script starts, in order.

    Args:
        script: Somewhere below root.
        root: Its checkout, which is the directory that it is started in. It is copied.
        variables: Of its environment, besides HOME and PATH.
        seconds: How long it may take.
        exports: Whether what it starts sees all variables of the script's, also those that it does not export.
        goes_on: Whether it goes on where a command fails, or there is no folder that it goes to.
    """
    with tempfile.TemporaryDirectory() as folder:
        new, record, stubs = (Path(folder, name) for name in ("root", "record", "stubs"))
        for place in (new, record, stubs):
            place.mkdir()
        for name in STAND_INS:
            _executable(stubs / name, _RECORDED)
        _executable(stubs / "any", _RECORDED.replace('"${0##*/}" "$@"', '"$@"'))
        parts = (_NOT_FOUND, _GOES_ON if goes_on else "", "set -a\n" if exports else "")
        (stubs / "env.sh").write_text("".join(parts), encoding="utf-8")
        edit = _STOPS if goes_on else ""
        command = ["/bin/bash", "-c", _STARTED, "_", str(root), str(script)]
        inside(new, root, command, variables, seconds, record, stubs, script=script, edit=edit)
        return [
            Started(tuple(_texts(words)), _variables(words.with_suffix(".environment")))
            for words in sorted(record.glob("*.words"))
        ]


def inside(
    new: Path,
    root: Path,
    command: Sequence[str],
    variables: Mapping[str, str],
    seconds: int,
    record: Path,
    stubs: Path,
    seen: Sequence[Path] = (),
    script: Path | None = None,
    edit: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run a command where it can change nothing: with a copy of a checkout, and without a network.

    Args:
        new: An empty directory, which becomes the root.
        root: The checkout, which is copied to its own place there.
        command: What is run, in bash's place of programs: /stubs, /usr/bin and /bin.
        variables: Of its environment, besides HOME and PATH.
        seconds: How long it may take.
        record: What it sees as /record, and may write to.
        stubs: What it sees as /stubs: a copy.
        seen: Directories that it sees at their own places, and cannot change.
        script: A file of the copy to edit.
        edit: A program of sed's for that.
    """
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": HOME, "USER": "nobody", **_IN_A_JOB}
    starts = [shutil.which("unshare") or "unshare", "-rnm", "--kill-child", "--fork"]
    arguments = [new, root, record, stubs, seconds, "\n".join(map(str, seen)), script or "", edit]
    return subprocess.run(
        [*starts, "/bin/bash", "-c", _RUN, "_", *map(str, arguments), *command],
        env={**variables, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds + 20,
        check=False,
    )


def _executable(place: Path, text: str) -> None:
    place.write_text(text, encoding="utf-8")
    place.chmod(0o755)


def _texts(place: Path) -> Sequence[str]:
    return place.read_bytes().decode("utf-8", errors="replace").split("\0")[:-1] if place.is_file() else []


def _variables(place: Path) -> dict[str, str]:
    found = (text.partition("=") for text in _texts(place))
    return {name: value for name, _, value in found}
