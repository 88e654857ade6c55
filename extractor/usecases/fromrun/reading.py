"""Reading a run: a launch script, a list of overrides or a resolved config, as overrides of verl's config."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from extractor.usecases.fromrun import (
    checkout,
    of_checkpoint,
    own_config,
    pasted,
    prime,
    programs,
    python_launchers,
    python_trainers,
)
from extractor.usecases.fromrun.bash import too_much
from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.launches import launches_of
from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.other_libraries import easyr1, trl
from extractor.usecases.fromrun.other_libraries.translation import FileScored, ScoredBy, Translated, Written
from extractor.usecases.fromrun.recorded import editors, logs, trackers
from extractor.usecases.fromrun.unknowns import readable, unknowns, with_words
from extractor.values import limits, readers
from extractor.values.configtree import BadOverride, Override, parse_override
from extractor.values.configtree.compose import read_yaml
from extractor.values.errors import UsageError

_NOTE = re.compile(r"^#\s*vextract:\s*(?P<name>[\w.]+)(?P<mark>[:=])\s*(?P<value>.*)$", re.MULTILINE)
_AS_EXPORTED = "leave these comments as `vextract export` wrote them, or remove them"
# What a reader of the script is to put in: `<your path>`, `{your_path}`.
_PLACEHOLDER = re.compile(r"<[^<>]+>|\{\w+\}")
_QUOTES = "'\""
_KEY = r"\+{0,2}[A-Za-z_][\w.]*"
_OF_HYDRA = ("config.yaml", "overrides.yaml")
_NO_LOG = (".bash", ".ipynb", ".json", ".md", ".py", ".rst", ".sh", ".yaml", ".yml")
# By which one of several configurations of VS Code's is chosen.
_CONFIGURATION = "configuration"


@dataclass(frozen=True)
class Run:
    """A run of verl, as it was written down.

    Attributes:
        file: Where.
        overrides: In order; unknown parts are still in them.
        resolved: A resolved config, nested; None where there are overrides instead.
        config_name: The primary config.
        program: The module that is launched, or its file; "": not known.
        version: That of the verl in its checkout, as it says itself; None: there is none.
        defaults: What it starts from where that is not a release's config: its checkout's own, or those of its time.
        overlay: Config files beside the script that the run names, in order.
        notes: What a user should know of how it was read.
        hints: What `vextract export` has left in comments about the project; kept: and of settings, by its keys.
        environment: Variables that the command would see.
        places: Where its relative paths may lead.
        remarks: What became of settings that verl has no name for.
        is_whole: Whether the defaults are all that its release had.
        scored_by: What scores in a run of TRL's or EasyR1's; None: the settings say what does.
        written: What a run of EasyR1's adds to its prompts.
        is_bare: Whether what it leaves open is the project's own, since the run's settings are not known.
        has_process_rewards: Whether it trains as upstream's recipe for PRIME does, by another program.
        script: The text of a bash script; "": it is none.
        former: What it says under names that were taken from it for others; its copies may read them.
    """

    file: str
    overrides: tuple[Override, ...] = ()
    resolved: Mapping[str, Any] | None = None
    config_name: str = "ppo_trainer"
    program: str = ""
    version: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    overlay: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    hints: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    places: Places = field(default_factory=lambda: Places(()), repr=False)
    remarks: tuple[Remark, ...] = ()
    scored_by: ScoredBy | FileScored | None = None
    written: Written | None = None
    is_whole: bool = False
    is_bare: bool = False
    has_process_rewards: bool = False
    script: str = field(default="", repr=False)
    former: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_prime(self) -> bool:
        """Tell whether it trains as upstream's recipe for PRIME does, by its program or another."""
        return self.has_process_rewards or prime.is_launch(self.program)


def read_run(
    path: Path,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    config_dirs: Sequence[Path] = (),
    started_in: Path | None = None,
) -> Run:
    """Read a run.

    Args:
        path: A bash script, a config, a program, or what a run has left behind: a file or a directory.
        given: Variables set by the user (`--set VAR=VALUE`).
        environment: Variables that a script may count on, such as HOME.
        config_dirs: Where to look for configs that the run names.
        started_in: The directory that it is started in; None: guessed.

    Raises:
        UsageError: no such file, not readable, or it starts nothing that can be converted.
    """
    places = Places.of(path, started_in)
    run = _read(path, _Around(given, environment, config_dirs, places))
    places = places.with_python_path(run.environment.get("PYTHONPATH", ""))
    return replace(run, places=places, version=checkout.version_of(places))


@dataclass(frozen=True)
class _Around:
    """Holds what a script is read with besides its text: the arguments of `read_run`, and where it may be started."""

    given: Mapping[str, str]
    environment: Mapping[str, str]
    config_dirs: Sequence[Path]
    places: Places

    def with_variables(self, more: Mapping[str, str]) -> _Around:
        """Return the same with variables of the environment besides."""
        return replace(self, environment={**self.environment, **more})


def _read(path: Path, around: _Around) -> Run:
    if path.is_dir():
        return _from_folder(path, around.places)
    try:
        logged = None if path.suffix in _NO_LOG else logs.read(readers.read_start(path), _is_whole)
        if logged is not None and logged.config:
            return _from_log(path, logged, around.places)
        text = readers.read_text(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint="pass a launch script, overrides or a resolved config") from None
    except OSError as error:
        hint = "pass a text file, or a log that has the run's config"
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=hint) from None
    if not text.strip():
        raise UsageError(f"{path}: empty", hint="pass a launch script, overrides or a resolved config")
    if path.suffix in (".yaml", ".yml"):
        body = _yaml(path, text)
        job = None if _is_config(body) or trl.is_config(body) else pasted.job(body, text)
        if job is None:
            return _from_yaml(path, trackers.unwrapped(body), around.places)
        return _from_script(path, job[0], around.with_variables(job[1]))
    if path.suffix == ".json":
        return _from_json(path, text, around)
    if path.suffix in (".py", ".ipynb") and pasted.listed(text) is None:
        return _from_python(path, text, around)
    return _from_words(path, text) or _from_script(path, pasted.script(text), around)


def _from_folder(folder: Path, places: Places) -> Run:
    checkpoint = of_checkpoint.find(folder)
    if checkpoint is not None:
        return _from_checkpoint(checkpoint)
    if not (folder / ".hydra").is_dir() and trackers.is_run(folder):
        return _from_yaml(folder, trackers.read(folder), places)
    return _from_hydra(folder, places)


def _from_words(path: Path, text: str) -> Run | None:
    """Read a list of overrides, Python's or one to a line; None where it is none."""
    listed = pasted.listed(text)
    if listed is not None and any(map(_is_override, listed)):
        return Run(str(path), _overrides([item for item in listed if _is_override(item)], str(path)))
    text = pasted.script(text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    is_list = path.suffix not in (".sh", ".bash") and not pasted.starts_python(text)
    if is_list and lines and all(_is_override(line.rstrip("\\ ")) for line in lines):
        overrides = _overrides([own_config.unquoted(line.rstrip("\\ ")) for line in lines], str(path))
        return Run(str(path), overrides, hints=_hints(path, text), kept=_kept(path, text))
    return None


def _from_python(path: Path, text: str, around: _Around) -> Run:
    """Read a training script of TRL's, or the command by which a notebook or another program starts a run."""
    found = None
    try:
        command = pasted.commands_of(text) if path.suffix == ".ipynb" else ""
        if not pasted.launches(command):
            code = pasted.notebook(text) if path.suffix == ".ipynb" else text
            started = python_trainers.read(code, path, around.given)
            if started is not None:
                return _started(path, started, around)
            found = trl.of_python(code, path)
            command = "" if found is not None else python_launchers.script_of(code, path, around.given)
    except ValueError as error:
        raise UsageError(f"{path}: no notebook: {error}", hint="pass a notebook, or a script of it") from None
    except SyntaxError as error:
        newer = "f-string" in error.msg and sys.version_info < (3, 12)
        hint = "run vextract with Python 3.12 or later" if newer else "pass a launch script, or one of TRL's"
        place = str(path) if error.lineno is None else f"{path}:{error.lineno}"
        raise UsageError(f"{place}: no Python: {error.msg}", hint=hint) from None
    if command:
        return _from_script(path, command, around)
    if found is None:
        raise UsageError(
            f"{path}: it starts no trainer of verl's or TRL's, nor a run by a command",
            hint="pass the script that starts the training",
        )
    return _translated(path, found)


def _from_checkpoint(place: Path) -> Run:
    found = of_checkpoint.read(place)
    return Run(str(place), found.overrides, kept=found.kept, remarks=found.remarks, is_bare=True)


def _from_log(path: Path, logged: logs.Logged, places: Places) -> Run:
    """Read the config that a run has printed, of which its command says what it sets."""
    run = _from_yaml(path, logged.config, places)
    program, words = programs.launched(logged.command) or ("", logged.command or logged.overrides)
    if run.resolved is not None and words is not None:
        said = _overrides([word for word in words if _is_override(word)], str(path))
        run = replace(run, overrides=said, defaults=run.resolved, resolved=None, is_whole=True)
    notes = _on_the_trainer(program, logged.line) if program else []
    if logged.configs > 1:
        notes.append(f"{logged.configs} configs: the last, in line {logged.line}, is the one that is taken")
    return replace(run, program=program, notes=tuple(notes))


def _of_several(lines: Sequence[int]) -> list[str]:
    """Say which launch of a script is taken, where it has several."""
    several = f"{len(lines)} launches: the first, in line {lines[0]}, is the one that is taken"
    return [several] if len(lines) > 1 else []


def _on_the_trainer(module: str, line: int | None) -> list[str]:
    if "main_ppo" in module or prime.is_launch(module):
        return []
    return _is_another(module, line, "main_ppo")


def _is_another(module: str, line: int | None, usual: str) -> list[str]:
    where = "" if line is None else f"line {line}: "
    return [f"{where}{module} is another trainer than {usual}: what only it does is not carried over"]


def _from_json(path: Path, text: str, around: _Around) -> Run:
    """Read a config, what W&B notes of a command, or how VS Code launches a run."""
    try:
        body = editors.parsed(text)
    except ValueError as error:
        raise UsageError(f"{path}: no JSON: {error}", hint="correct the file") from None
    command = trackers.command_of(body)
    if command:
        return _from_script(path, shlex.join(command), around)
    if command is not None:  # of a worker of Ray's, beside which the config is
        return _read(path.resolve().parents[1], around)
    launches = editors.launches(body, path)
    if not launches:
        return _from_yaml(path, trackers.unwrapped(body), around.places)
    asked = around.given.get(_CONFIGURATION)
    found = next((item for item in launches if asked in (None, item.name)), None)
    if found is None:
        names = ", ".join(item.name for item in launches)
        raise UsageError(
            f"{path}: no configuration {asked} that trains", hint=f"--set {_CONFIGURATION}=... of: {names}"
        )
    run = _from_script(path, found.script, around.with_variables(found.environment))
    several = f"{len(launches)} configurations: {found.name} is the one that is taken (--set {_CONFIGURATION}=NAME)"
    return replace(run, notes=(*run.notes, several)) if len(launches) > 1 and asked is None else run


def _from_hydra(folder: Path, at: Places) -> Run:
    """Read what Hydra writes of a run: `.hydra/config.yaml`, of which `overrides.yaml` is what the command line set."""
    places = (folder / ".hydra", folder)
    place = next((item for item in places if all((item / name).is_file() for name in _OF_HYDRA)), None)
    if place is None:
        raise UsageError(
            f"{folder}: no output of Hydra (no .hydra with {' and '.join(_OF_HYDRA)} in it), nor a checkpoint of verl",
            hint="pass the run's directory, outputs/DATE/TIME, a global_step_N directory, or a launch script",
        )
    files = [place / name for name in _OF_HYDRA]
    config, overrides = (_from_yaml(file, _yaml(file, readers.read_text(file)), at) for file in files)
    if config.resolved is None:
        raise UsageError(f"{place / _OF_HYDRA[0]}: no config", hint="pass the directory as Hydra wrote it")
    return replace(overrides, file=str(folder), defaults=config.resolved, is_whole=True)


def _yaml(path: Path, text: str) -> Any:
    try:
        config = read_yaml(text, last_counts=True)
        if not trl.is_config(config):
            config = read_yaml(text)
        return config
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}", hint="correct the file") from None


def _from_yaml(path: Path, config: Any, places: Places) -> Run:
    if isinstance(config, list) and all(isinstance(item, str) for item in config):
        # Hydra's own .hydra/overrides.yaml
        return Run(str(path), _overrides(config, str(path)))
    if easyr1.is_config(config):
        return _translated(path, easyr1.translated(config, places))
    if trl.is_config(config):
        return _translated(path, trl.of_config(config, path))
    if not isinstance(config, dict) or not _is_config(config):
        raise UsageError(
            f"{path}: no config of verl's trainer: neither data nor actor_rollout_ref in it",
            hint="pass what `--cfg job --resolve` prints, .hydra/config.yaml of a run, or a job that launches one",
        )
    config.pop("hydra", None)
    return Run(str(path), resolved=config)


def _is_config(body: Any) -> bool:
    """Tell whether a YAML is a config of verl's trainer, in its form or EasyR1's."""
    return isinstance(body, dict) and bool({"data", "actor_rollout_ref"} & body.keys())


def _is_whole(body: Any) -> bool:
    """Tell whether something that a log has is the whole config of a trainer."""
    return _is_config(body) and "trainer" in body


def _from_script(path: Path, text: str, around: _Around, *, is_by_a_program: bool = False) -> Run:
    places = around.places
    reading, launches, notes = launches_of(path, text, around.given, around.environment, places)
    if not launches:
        others = [command for command in reading.commands if trl.is_launch(command.words, places)]
        if others:
            found = _translated(path, trl.launched(path, others[0].words, places))
            return replace(found, notes=(*reading.notes, *_of_several([command.line for command in others])))
        started = next(filter(None, (python_trainers.launched(item.words, places) for item in reading.commands)), None)
        if started is not None:
            return _started(path, started, around, reading.notes)
        launch = next(filter(None, (python_launchers.started(item.words, places) for item in reading.commands)), "")
        if launch and not is_by_a_program:
            found = _from_script(path, launch, around, is_by_a_program=True)
            return replace(found, notes=(*reading.notes, *found.notes))
        what, hint = programs.instead([command.words for command in reading.commands], text)
        raise UsageError(f"{path}: {what}", hint=hint)
    notes += _of_several([command.line for command, _ in launches])
    command, (module, arguments) = launches[0]
    if easyr1.is_launch(module, arguments):
        notes += [] if module == easyr1.MODULE else _is_another(module, command.line, "EasyR1's")
        return replace(_translated(path, easyr1.launched(path, arguments, places)), notes=tuple(notes))
    config = own_config.read(module, arguments, path, around.config_dirs, places)
    sections = {section for body in config.overlay for section in body}
    if foreign := programs.foreign_sections(module, arguments, sections):
        raise UsageError(
            f"{path}:{command.line}: {module} is no trainer of verl's: it takes settings of {' and '.join(foreign)}",
            hint="pass a run of verl, of a fork of it, of EasyR1 or of TRL",
        )
    run = _configured(path, module, config, command.line)
    changed = python_trainers.changed(module, config.words, places)
    run = run if changed is None else _with(run, changed)
    return replace(
        run,
        notes=(*notes, *run.notes),
        hints=_hints(path, text),
        kept=_kept(path, text),
        environment=command.environment,
        script=text,
    )


def _configured(path: Path, module: str, config: own_config.OwnConfig, line: int | None) -> Run:
    """Return the run of a program with the config and the arguments that it is started with.

    Args:
        path: The script, or the program.
        module: What is launched.
        config: What it starts from, and its other arguments.
        line: Of the launch; None: it is in no script.
    """
    words = [word for word in config.words if _is_override(word)]
    overrides = _overrides(words, str(path) if line is None else f"{path}:{line}")
    odd = [word for word in words if _is_odd(with_words(word)[0])]
    notes = [*_on_the_trainer(module, line), *config.notes]
    notes += [f"{readable(word)}: Hydra would refuse it, and its text is taken" for word in odd]
    for word in config.words:
        if not _is_override(word):
            if unknowns(word) == (word[1:-1],):
                notes.append(f"{readable(word)}: what it may add is not known")
            elif word not in ("&",):
                notes.append(f"{readable(word)}: no override, left out")
    return Run(
        str(path),
        overrides,
        config_name=config.name,
        program=module,
        defaults=config.defaults,
        overlay=config.overlay,
        notes=tuple(notes),
    )


def _started(path: Path, found: python_trainers.Started, around: _Around, notes: Sequence[str] = ()) -> Run:
    """Return the run that a program starts with a config that it puts together."""
    if found.resolved is not None:
        return replace(_from_yaml(path, dict(found.resolved), around.places), notes=(*notes, *found.notes))
    config = own_config.read(found.module, found.words, path, around.config_dirs, around.places)
    run = _with(_configured(path, found.module, config, None), found)
    return replace(run, notes=(*notes, *run.notes))


def _with(run: Run, found: python_trainers.Started) -> Run:
    """Return a run with what its program sets of its config."""
    return replace(
        run,
        overrides=(*run.overrides, *found.settings),
        notes=(*run.notes, *found.notes),
        remarks=(*run.remarks, *found.remarks),
    )


def _translated(path: Path, found: Translated) -> Run:
    """Return a run of another library, in verl's names."""
    scored, written = found.scored_by, found.written
    return Run(str(path), found.overrides, remarks=found.remarks, scored_by=scored, written=written)


def _is_override(word: str) -> bool:
    return re.match(r"[\"']?(?:~[\w.@/]+$|(?:\+\+|\+|~)?[A-Za-z_][\w.@/]*=)", word) is not None


def _overrides(words: Sequence[str], where: str) -> tuple[Override, ...]:
    if len(words) > limits.MAX_OVERRIDES:
        raise too_much(where, f"more than {limits.MAX_OVERRIDES:,} overrides")
    if sum(map(len, words)) > limits.MAX_OVERRIDES_TEXT:
        raise too_much(where, f"overrides of more than {limits.MAX_OVERRIDES_TEXT:,} characters")
    return tuple(_override(word, where) for word in words)


def _is_odd(text: str) -> bool:
    """Tell whether an override has a plain value with a character that is none of Hydra's: `key=~/data`."""
    if not re.fullmatch(rf"{_KEY}=[^\[\]{{}}(),'\"]+", text):
        return False
    try:
        parse_override(text)
    except BadOverride as error:
        return "token recognition error" in str(error)
    return False


def _override(word: str, where: str) -> Override:
    text, back = with_words(word)
    try:
        found = parse_override(text)
    except BadOverride as error:
        key, _, value = text.partition("=")
        if re.fullmatch(_KEY, key) and (_PLACEHOLDER.search(value) or _is_odd(text) or unknowns(word)):
            return Override(key[: len(key) - len(key.lstrip("+"))], key.lstrip("+"), back(value.strip(_QUOTES)), word)
        said = readable(back(str(error)))
        raise UsageError(f"{where}: {said}", hint="Hydra would refuse it as well: correct it") from None
    return Override(found.mark, back(found.key), back(found.value), word)


def _hints(path: Path, text: str) -> dict[str, Any]:
    found = _noted(path, text, ":")
    for name, value in found.items():
        texts = value if name == "features" and isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in texts):
            raise UsageError(f"{path}: `# vextract: {name}:` is no text, or list of texts", hint=_AS_EXPORTED)
    if not str(found.get("package", "proj")).isidentifier():
        raise UsageError(f"{path}: `# vextract: package:` is no name of a package", hint=_AS_EXPORTED)
    return found


def _kept(path: Path, text: str) -> dict[str, Any]:
    return _noted(path, text, "=")


def _noted(path: Path, text: str, mark: str) -> dict[str, Any]:
    try:
        return {
            found["name"]: readers.parse_json(found["value"]) for found in _NOTE.finditer(text) if found["mark"] == mark
        }
    except ValueError as error:
        raise UsageError(f"{path}: a comment `# vextract: ...` is no JSON: {error}", hint=_AS_EXPORTED) from None
