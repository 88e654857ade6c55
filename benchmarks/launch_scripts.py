"""How many launch scripts of checkouts become projects that train: `python -m benchmarks.launch_scripts CHECKOUT...`.

Each script becomes a project, whose engine is hf. It starts where its own checks accept its config and the files that
the run names (reward function, dataset) import, and trains where `main.py` then does two steps, on a CPU.
`stand_ins.SETTINGS` has in its place what is made up for that: models, data, sizes. Everything else is the script's.
`supplied` says of which files that are not with the script something else took the place.
Scripts that set nothing of verl's trainer, or are for other back ends than FSDP with vLLM, SGLang or HF, are out of
scope; the same script in two checkouts counts once, in the first.
"""

import argparse
import functools
import hashlib
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.environment import on_one_thread
from extractor.importers.runs import run_request
from extractor.importers.runs.run_request import RunRequest
from extractor.pipeline import generate
from extractor.pipeline.generate import Generated
from extractor.pipeline.plan import plan_new
from extractor.pipeline.source import Source, open_source
from extractor.usecases import new
from extractor.values import releases
from extractor.values.errors import VextractError
from extractor.values.manifest import Manifest
from extractor.values.options import Options

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = re.compile(
    r"\bmain_(?:ppo|dapo)\b|\bverl\.trainer\.main\s|\bpython\S*\s.*\\\n(?:.*\\\n)*.*\bactor_rollout_ref\.actor\."
)
ELSEWHERE = re.compile(
    r"megatron|(?<![a-z])npu(?![a-z])|ascend|trtllm|torchtitan|veomni|mindspeed|automodel", re.IGNORECASE
)
WHOLE = "whole"
T = TypeVar("T")
# Where nothing is; and what a variable of such a place may be called, unless it is called a path or a length.
PLACE, OTHER_PLACES = "/made/up", "parquet|json|model|data|ckpt|home|root|adapter"
# As the report says it of a setting that nothing in a project does.
NOWHERE = "the project has no such setting|no release of verl has it"
ASKED = re.compile(r"--set (\w+)=")
COMPARED = re.compile(r"compares \$(\w+) with ([^,)]+)")


@dataclass(frozen=True)
class Outcome:
    """Holds what became of a script.

    Attributes:
        script: its path in the checkout.
        what: how far it came.
        why: no further.
        supplied: what took the place of files that are not with it.
        aside: what of it the project does not do: keys that no release has, names in whose place stand others.
    """

    script: str
    what: str
    why: str = ""
    supplied: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


def in_scope(path: Path) -> bool:
    """Tell whether a script launches what a project can do."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return LAUNCH.search(text) is not None and ELSEWHERE.search(f"{path.name} {text}") is None


def scripts_of(roots: list[Path], only: str, take: int, per_folder: int) -> Iterator[tuple[Path, list[Path]]]:
    """Find the scripts in scope of each checkout, at most so many of each, evenly spread over it.

    Args:
        roots: The checkouts.
        only: A regular expression of paths.
        take: At most so many of a checkout; 0: all.
        per_folder: At most so many of what stands in a folder of the same path, in all checkouts; 0: all.
    """
    seen: set[bytes] = set()
    folders: Counter[Path] = Counter()
    for root in roots:
        found = []
        for path in sorted(root.rglob("*.sh")):
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in seen and in_scope(path) and re.search(only, str(path.relative_to(root))):
                seen.add(digest)
                folder = path.parent.relative_to(root)
                folders[folder] += 1
                if not per_folder or folders[folder] <= per_folder:
                    found.append(path)
        count = min(take or len(found), len(found))
        yield root, [found[index * len(found) // count] for index in range(count)]


def listed(lines: Iterable[str]) -> Iterator[tuple[Path, Path, tuple[str, ...]]]:
    """Yield the checkout, the script and the given variables of each line of a draw (`benchmarks.drawn`)."""
    for line in lines:
        if line.strip():
            root, script, *given = line.rstrip("\n").split("|", 2)
            yield Path(root), Path(root) / script, tuple(shlex.split(given[0]) if given else ())


def convert(
    script: Path, target: Path, release: str, keep_unknown: bool, given: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Make a script's project; returns the variables that had to be set by hand.

    Raises:
        VextractError: it cannot be made.
    """
    options = Options(target.name, release, "hf", "grpo", (), "toy")
    made, set_by_hand = project_of(script, options, keep_unknown, given=given)
    new.write(target, plan_new(made.tree), made.generated)
    return set_by_hand


def project_of(
    script: Path,
    options: Options,
    keep_unknown: bool,
    chosen: frozenset[str] = frozenset({"engine"}),
    given: tuple[str, ...] = (),
) -> tuple[new.NewProject, tuple[str, ...]]:
    """Return a script's project, in memory, and the variables that had to be set by hand.

    Args:
        script: The launch script.
        options: Of the project, as far as the script does not say them.
        keep_unknown: As the flag of `vextract new`.
        chosen: The options that the script is not asked for.
        given: Variables that are set by hand anyway.

    Raises:
        VextractError: it cannot be made.
    """

    def make(variables: tuple[str, ...]) -> new.NewProject:
        request = request_of(script, variables, keep_unknown)
        return new.make_in_memory(new.NewRequest(options, chosen, run=request), lambda text: None)

    return with_variables(make, given)


def request_of(script: Path, given: tuple[str, ...], keep_unknown: bool) -> RunRequest:
    """Return what is asked of a script: its configs are beside it, or in `config/`."""
    return RunRequest(script, given, (script.parent, script.parent / "config"), keep_unknown=keep_unknown)


def with_variables(make: Callable[[tuple[str, ...]], T], given: tuple[str, ...] = ()) -> tuple[T, tuple[str, ...]]:
    """Make something of a script, with the variables made up that it asks for; returns these as well.

    Raises:
        VextractError: it cannot be made.
    """
    for last in (*[False] * 4, True):
        try:
            return make(given), given
        except VextractError as error:
            hint = error.hint or ""
            named = ASKED.findall(hint) or re.findall(r"\w+", hint.partition("writes them:")[2])
            words = dict(COMPARED.findall(hint))
            asked = tuple(f"{name}={words.get(name) or made_up(name)}" for name in named)
            if last or not set(asked) - set(given):
                raise
            given = (*given, *asked)
    raise AssertionError("the last attempt returns or raises")


def made_up(name: str) -> str:
    """Return a value for a variable that a script does not set, by what its name says."""
    if re.search("dtype", name, re.IGNORECASE):
        return "float32"
    if re.search("kl_?(penalty|loss_type)", name, re.IGNORECASE):
        return "kl"
    if re.search("kl.*type", name, re.IGNORECASE):
        return "fixed"
    if re.search("(func|fn|score).*name", name, re.IGNORECASE):
        return "compute_score"
    for words, value in (("path|dir|file", PLACE), ("len|token", "1024"), (OTHER_PLACES, PLACE)):
        if re.search(words, name, re.IGNORECASE):
            return value
    return "1"


def remember() -> None:
    """Generate a project, and open a release, once for each set of options: conversions differ in little else."""
    real, opened, made = generate.generate, functools.cache(open_source), {}

    def generated(options: Options, source: Source, manifest: Manifest) -> Generated:
        key = (options, source.release)
        if key not in made:
            made[key] = real(options, source, manifest)
        return made[key]

    generate.generate = generated
    run_request.open_source = lambda pin, offline=False: opened(pin, None, offline=offline)
    new.open_source = opened


def outcomes(
    scripts: Iterable[tuple[Path, Path, tuple[str, ...]]],
    folder: Path,
    release: str,
    keep_unknown: bool = False,
    train: bool = True,
) -> Iterator[tuple[Path, Outcome]]:
    """Convert each script, start its project, and train it for two steps.

    Args:
        scripts: The checkout of each, its path, and variables that are set by hand.
        folder: Where the projects go.
        release: Of verl, for the projects.
        keep_unknown: As the flag of `vextract new`.
        train: Whether they train, too.
    """
    with tried() as attempt:
        for number, (root, script, variables) in enumerate(scripts):
            name, target = str(script.relative_to(root)), folder / f"{root.name}-{number}" / "proj"
            try:
                given = convert(script, target, release, keep_unknown, variables)
            except VextractError as error:
                yield root, Outcome(name, "refused", error.message)
                continue
            except Exception as error:
                yield root, Outcome(name, "bug", f"{type(error).__name__}: {error}")
                continue
            what, why, supplied = attempt(target, train)
            yield root, Outcome(name, what, why or " ".join(given), tuple(supplied), set_aside(target))


@contextmanager
def tried() -> Iterator[Callable[[Path, bool], tuple[str, str, list[str]]]]:
    """Give a function that tries a project, as `trials.trial` does, in a process that is ready for it."""
    command = [sys.executable, "-m", "benchmarks.trials"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=on_one_thread(), cwd=ROOT
    ) as driver:
        reading, writing = driver.stdout, driver.stdin
        assert reading is not None
        assert writing is not None

        def attempt(project: Path, train: bool) -> tuple[str, str, list[str]]:
            writing.write(f"{json.dumps([str(project), train])}\n")
            writing.flush()
            what, why, supplied = json.loads(reading.readline())
            return what, why, supplied

        yield attempt


def set_aside(project: Path) -> tuple[str, ...]:
    """Return the settings of a run that its project does not do, or has others in the place of, as its report says."""
    report = (project / "from_run.md").read_text(encoding="utf-8")
    found = re.findall(rf"^\| `([^`]+)` \|.*\| (?:\S+ in its place|{NOWHERE})", report, re.MULTILINE)
    has_critic = (project / "config" / "critic").is_dir()
    return tuple(key for key in found if has_critic or not key.startswith("critic."))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="*")
    parser.add_argument("--drawn", type=Path, help="a file of scripts, as `benchmarks.drawn` prints them, instead")
    parser.add_argument("--share", default="1/1", help="only every Nth script from the Ith on: I/N, for N machines")
    parser.add_argument("--verl", default=releases.find_default(), help="release of the projects")
    parser.add_argument("--take", type=int, default=0, help="at most so many scripts of each checkout; 0: all")
    parser.add_argument("--per-folder", type=int, default=0, help="at most so many of folders of the same path; 0: all")
    parser.add_argument("--start", action="store_true", help="only see whether they start")
    parser.add_argument("--only", default="", help="regular expression of paths")
    parser.add_argument("--keep-unknown", action="store_true", help="as the flag of `vextract new`")
    parser.add_argument("--into", type=Path, help="keep the projects here")
    options = parser.parse_args()
    remember()
    if options.drawn:
        scripts = list(listed(options.drawn.read_text(encoding="utf-8").splitlines()))
    else:
        roots = [path.resolve() for path in options.checkouts]
        found = scripts_of(roots, options.only, options.take, options.per_folder)
        scripts = [(root, script, ()) for root, some in found for script in some]
    first, every = map(int, options.share.split("/"))
    counts: defaultdict[Path, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.into or Path(temporary)
        for root, item in outcomes(
            scripts[first - 1 :: every], folder, options.verl, options.keep_unknown, not options.start
        ):
            counts[root][item.what] += 1
            counts[root][WHOLE] += item.what == "trains" and not item.aside
            supplied = f"  (supplied {', '.join(item.supplied)})" if item.supplied else ""
            aside = f"  (without {len(item.aside)} of its settings)" if item.aside else ""
            line = f"{item.what:12}  {root.name}/{item.script}: {' '.join(item.why.split())[:300]}{supplied}{aside}"
            print(line, flush=True)
    for root, some in counts.items():
        print(f"{root.name}: {summary(some)}")
    print(f"all: {summary(sum(counts.values(), Counter()))}")
    return 0


def summary(counts: Counter[str]) -> str:
    """Say how far the scripts came."""
    number = sum(counts.values()) - counts[WHOLE]
    converted = number - counts["refused"] - counts["bug"]
    trained = counts["trains"]
    started = counts["starts"] + counts["steps"] + trained
    others = {what: count for what, count in sorted(counts.items()) if what not in ("starts", "trains", WHOLE)}
    found = f"{converted} of {number} converted, {started} of these start, {trained} train"
    return f"{found} ({counts[WHOLE]} with all that the run sets) {others}"


if __name__ == "__main__":
    sys.exit(main())
