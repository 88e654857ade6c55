"""How many launch scripts of checkouts become projects that start: `python -m benchmarks.launch_scripts CHECKOUT...`.

A script counts as started where its project's own `load_config` and `check_config` accept its config and the files that
the run names (reward function, dataset) import; it logs to the console only. Its models and data are taken to be there.
A file or a registered class that is not with the script is `to supply`: the conversion says so, and the start stops.
Scripts that set nothing of verl's trainer, or are for other back ends than FSDP with vLLM, SGLang or HF, are out of
scope; the same script in two checkouts counts once, in the first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extractor.usecases import new
from extractor.usecases.fromrun.carry_over import Request
from extractor.values import releases
from extractor.values.errors import VextractError
from extractor.values.options import Options

LAUNCH = re.compile(
    r"\bmain_(?:ppo|dapo)\b|\bverl\.trainer\.main\s|\bpython\S*\s.*\\\n(?:.*\\\n)*.*\bactor_rollout_ref\.actor\."
)
ELSEWHERE = re.compile(r"megatron|npu|ascend|trtllm|torchtitan|veomni|mindspeed|automodel", re.IGNORECASE)
ASKED = re.compile(r"--set (\w+)=")

# Runs in each project, in a process of its own that has torch already.
DRIVER = """
import importlib.util, json, os, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import hydra, omegaconf, tensordict, torch, transformers, pandas, datasets  # once for all of them

def start(project):
    os.chdir(project)
    sys.path.insert(0, project)
    package = Path(project).name
    sys.path_importer_cache.clear()
    where = "load_config"
    try:
        training = importlib.import_module(f"{package}.settings.loading")
        config = training.load_config(Path("config"), ["trainer.logger=[console]"])
        where = "paths"
        paths = importlib.import_module(f"{package}.settings.path_checks")
        for key in (*paths.MODELS, *paths.DATA):  # theirs are made up: what is left is what nobody asked for
            if omegaconf.OmegaConf.select(config, key) is not None and (key != paths.reward_keys.JUDGE_PATH or
                    omegaconf.OmegaConf.select(config, paths.reward_keys.JUDGE)):
                omegaconf.OmegaConf.update(config, key, project)
        for name in paths._missing(config):
            if not name[0].endswith(".py"):
                return "paths", ": ".join(name)
        where = "hooks"
        importlib.import_module(f"{package}.custom")
        where = "check_config"
        importlib.import_module(f"{package}.settings.checks").check_config(config, 1)
        where = "files"
        for name in training.flat_keys(config):
            value = omegaconf.OmegaConf.select(config, name)
            if isinstance(value, str) and value.endswith(".py"):
                if not Path(value).is_file():
                    return "to supply", f"{name}: {value}"
                spec = importlib.util.spec_from_file_location("named_file", value)
                spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except BaseException as error:
        supply = "which is not registered" in str(error)
        return "to supply" if supply else where, f"{type(error).__name__}: {error}"
    return "starts", ""

for line in sys.stdin:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with os.fdopen(writing, "w") as out:
            json.dump(start(line.strip()), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        print(answer.read() or '["died", ""]', flush=True)
    os.waitpid(child, 0)
"""


@dataclass(frozen=True)
class Outcome:
    """What became of a script: how far it came, and why no further."""

    script: str
    what: str
    why: str = ""


def in_scope(path: Path) -> bool:
    """Tell whether a script launches what a project can do."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return LAUNCH.search(text) is not None and ELSEWHERE.search(f"{path.name} {text}") is None


def scripts_of(roots: list[Path], only: str, take: int) -> Iterator[tuple[Path, list[Path]]]:
    """Find the scripts in scope of each checkout, at most so many of each, evenly spread over it."""
    seen: set[bytes] = set()
    for root in roots:
        found = []
        for path in sorted(root.rglob("*.sh")):
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in seen and in_scope(path) and re.search(only, str(path.relative_to(root))):
                seen.add(digest)
                found.append(path)
        count = min(take or len(found), len(found))
        yield root, [found[index * len(found) // count] for index in range(count)]


def convert(script: Path, target: Path, release: str, keep_unknown: bool) -> tuple[str, ...]:
    """Make a script's project; returns the variables that had to be set by hand.

    Raises:
        VextractError: it cannot be made.
    """
    given: tuple[str, ...] = ()
    wanted = new.Wanted(Options(target.name, release, "hf", "grpo", (), "toy"), offline=False)
    for _ in range(5):
        try:
            folders = (script.parent, script.parent / "config")
            request = Request(script, given, folders, keep_unknown=keep_unknown)
            new.write(target, new.work_out(new.Wanted(wanted.options, run=request), lambda text: None))
            return given
        except VextractError as error:
            asked = tuple(f"{name}={_made_up(name)}" for name in ASKED.findall(error.hint or ""))
            if not set(asked) - set(given):
                raise
            given = (*given, *asked)
    return given


def _made_up(name: str) -> str:
    """Return a value for a variable that a script does not set, by what its name says."""
    return "/made/up" if re.search("path|model|data|file|dir|ckpt|home|root|adapter", name, re.IGNORECASE) else "1"


def outcomes(
    scripts: list[Path], folder: Path, release: str, root: Path, keep_unknown: bool = False
) -> Iterator[Outcome]:
    """Convert each script and start its project."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        for number, script in enumerate(scripts):
            name, target = str(script.relative_to(root)), folder / f"{root.name}-{number}" / "proj"
            try:
                given = convert(script, target, release, keep_unknown)
            except VextractError as error:
                yield Outcome(name, "refused", error.message)
                continue
            except Exception as error:
                yield Outcome(name, "bug", f"{type(error).__name__}: {error}")
                continue
            driver.stdin.write(f"{target}\n")
            driver.stdin.flush()
            what, why = json.loads(driver.stdout.readline())
            yield Outcome(name, what, why or " ".join(given))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--verl", default=releases.default(), help="release of the projects")
    parser.add_argument("--take", type=int, default=0, help="at most so many scripts of each checkout; 0: all")
    parser.add_argument("--only", default="", help="regular expression of paths")
    parser.add_argument("--keep-unknown", action="store_true", help="as the flag of `vextract new`")
    parser.add_argument("--into", type=Path, help="keep the projects here")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.into or Path(temporary)
        roots = [path.resolve() for path in options.checkouts]
        for root, scripts in scripts_of(roots, options.only, options.take):
            counts: Counter[str] = Counter()
            for item in outcomes(scripts, folder, options.verl, root, options.keep_unknown):
                counts[item.what] += 1
                if item.what != "starts":
                    print(f"{item.what:12}  {item.script}: {' '.join(item.why.split())[:300]}", flush=True)
            print(f"{root.name}: {summary(counts)}", flush=True)
            total += counts
    print(f"all: {summary(total)}")
    return 0


def summary(counts: Counter[str]) -> str:
    """Say how far the scripts came."""
    number = sum(counts.values())
    converted = number - counts["refused"] - counts["bug"]
    return f"{converted} of {number} converted, {counts['starts']} of these start {dict(sorted(counts.items()))}"


if __name__ == "__main__":
    sys.exit(main())
