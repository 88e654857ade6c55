"""Make a project in memory, and write it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractor.pipeline import apply, generate
from extractor.pipeline.generate import Generated
from extractor.pipeline.plan import Plan
from extractor.pipeline.source import open_source
from extractor.project import base, lock
from extractor.usecases.emitted_files import make_lock
from extractor.values import releases
from extractor.values.configtree.yaml_text import Value, put
from extractor.values.errors import CheckFailed, SourceError, UsageError, VextractError
from extractor.values.manifest import OWN_MANIFEST, Manifest
from extractor.values.nearest import find_nearest
from extractor.values.options import ENVIRONMENT, Options
from extractor.values.tree import File, FileKind, Tree

if TYPE_CHECKING:
    # Few projects need it, and it takes a tenth of a second to import.
    from extractor.usecases.draft import ManifestFit

_ADAPTER = "env_"
_CONFIG = "config/ppo_trainer.yaml"
_ENVIRONMENT = b'"ADAPTER:NAME"'  # in the recipe's env_wrapper.py


@dataclass(frozen=True)
class NewRequest:
    """The command line's request for a new project.

    Attributes:
        options: Those that nobody chose have their defaults.
        chosen: The options that somebody chose: "engine", "algorithm", "recipe".
        without: Features to leave out.
        origin: Where verl comes from; None: the package index.
        run: A run to take the experiment from, an `importers.runs` RunRequest.
        agent: The agent program of the project, as "module:function".
        environment: An environment of another package, "ADAPTER:NAME"; empty: none.
        experimental: Accept a release without a manifest, and leave out what does not fit.
        offline: Never download.
    """

    options: Options
    chosen: frozenset[str] = frozenset()
    without: tuple[str, ...] = ()
    origin: Path | None = None
    run: Any = None
    agent: str | None = None
    environment: str = ""
    experimental: bool = False
    offline: bool = False


@dataclass(frozen=True)
class NewProject:
    """A project that is ready to be written.

    Attributes:
        generated: What is emitted, and what it is made from.
        tree: The same with a run's settings, which count as the owner's edits.
        run: What became of the run, an `importers.runs` ImportedProject; None: there is none.
        fit: For a release without a manifest: how far the one before it holds.
        warnings: What its owner should know.
    """

    generated: Generated = field(repr=False)
    tree: Tree = field(repr=False)
    run: Any = None
    fit: ManifestFit | None = None
    warnings: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return files and lines of Python: "vendored", "ours" and "tests"."""
        sizes = {"vendored": (0, 0), "ours": (0, 0), "tests": (0, 0)}
        for file in self.generated.tree:
            if file.path.endswith(".py"):
                part = "tests" if file.path.startswith("tests/") else "ours"
                part = "vendored" if file.kind is FileKind.VENDORED else part
                files, lines = sizes[part]
                sizes[part] = files + 1, lines + file.data.count(b"\n")
        return sizes


def make_in_memory(request: NewRequest, step: Callable[[str], None]) -> NewProject:
    """Make the project in memory.

    Raises:
        UsageError: the options contradict each other, or the release does not offer them; or it has no manifest, and
            `experimental` was not asked for.
        SourceError: verl is not available.
        CheckFailed: the parts of the former manifest that fit do not make a project.
    """
    release = request.options.verl
    fit, warnings = None, []
    if releases.is_unknown(release):
        fit = _infer(request, step)
        source, manifest = fit.new, fit.manifest
        warnings = [
            f"verl {release} has no manifest, so that of {fit.base} is used. Nothing was run."
            " Parts and fixes that do not fit are left out",
            f"no digest of verl {release} is known: the lock records {source.sha256}, and nothing vouches for it",
        ]
    else:
        manifest = releases.load(release)
    matched, asked = None, request.options
    if request.run is not None:
        matched = request.run.read(release, manifest, asked.engine if "engine" in request.chosen else None, step)
        asked = matched.options(asked, request.chosen, request.without)
    if request.environment:
        asked = _choose_environment(asked, request.environment, manifest)
    options = complete_options(asked, request.without, manifest)
    if fit is None:
        step(f"reading verl {release}")
        source = open_source(manifest.pin, request.origin, offline=request.offline)
    step("choosing and rewriting what the project needs")
    try:
        generated = generate.generate(options, source, manifest)
    except VextractError as error:
        raise error if fit is None else _explain_failure(release, fit.base, [error.message]) from None
    if fit is not None:
        from extractor.usecases.draft.config_fields import drop_lost_fields

        generated, lost = drop_lost_fields(generated, fit.old, source)
        warnings += [f"{item}: it was taken out" for item in lost]
        warnings += _find_unrequired(generated)
    settled, tree = None, generated.tree
    if matched is not None:
        settled = matched.apply_to_project(tree, options, source)
        tree = settled.tree
    tree = _add_owners_part(tree, options, request)
    warnings += generated.warnings
    return NewProject(generated, tree, settled, fit, tuple(warnings))


def write(target: Path, plan: Plan, generated: Generated) -> None:
    """Write a plan's files; differences from the generated ones count as edits.

    Raises:
        UsageError: the target cannot be made, or was taken in the meantime.
    """
    emitted = base.dump(base.collect_from_tree(generated.tree))
    apply.create(target, plan, lock_data=lock.dump(make_lock(generated)), base_data=emitted)


def complete_options(asked: Options, without: tuple[str, ...], manifest: Manifest) -> Options:
    """Complete the options with what they need.

    Raises:
        UsageError: the release does not have what is asked for, or it contradicts itself.
    """
    for feature in asked.features:
        if feature in without:
            raise UsageError(f"--with {feature} and --without {feature} contradict", hint="drop one of the two")
    for feature in without:
        generate.complete(replace(asked, features=(feature,)), manifest)
    options = generate.complete(asked, manifest, without)
    generate.refuse_needed_features(without, options, manifest)
    return options


def _add_owners_part(tree: Tree, options: Options, request: NewRequest) -> Tree:
    """Put the environment, the agent program and the manifest into files, as the owner would.

    Raises:
        UsageError: the agent program is not named as "module:function".
    """
    files, agent = {file.path: file for file in tree}, request.agent
    if request.environment:
        path, quoted = f"{options.package}/custom/env_wrapper.py", json.dumps(request.environment, ensure_ascii=False)
        files[path] = replace(files[path], data=files[path].data.replace(_ENVIRONMENT, quoted.encode()))
        if agent is None and request.environment.startswith("verifiers:"):  # others are stepped by their adapter
            agent = f"{options.package}.custom.env_verifiers:run"
    if agent is not None:
        if not re.fullmatch(r"[\w.]+:\w+", agent):
            raise UsageError(f"--agent is {agent!r}", hint="name a function of a module: --agent my_agent:run")
        text = files[_CONFIG].data.decode()
        text = put(text, ("local", "agent", "program"), Value(f" {agent}\n")) or text
        text = put(text, ("actor_rollout_ref", "rollout", "multi_turn", "enable"), Value(" true\n")) or text
        files[_CONFIG] = replace(files[_CONFIG], data=text.encode())
    if options.manifest:
        files[OWN_MANIFEST] = File(OWN_MANIFEST, FileKind.HOOK, options.manifest.encode())
    return Tree.of([*files.values()])


def _choose_environment(options: Options, name: str, manifest: Manifest) -> Options:
    """Choose the environment recipe and the adapter feature for an environment.

    Raises:
        UsageError: no adapter has that name, or it names nothing.
    """
    adapter, _, rest = name.partition(":")
    known = [item.name for item in (*manifest.features, *manifest.withheld)]
    adapters = [item.removeprefix(_ADAPTER) for item in known if item.startswith(_ADAPTER)]
    if adapter not in adapters or not rest:
        near = find_nearest(adapter, adapters)
        meant = f"did you mean `--env {near[0]}:{rest or 'NAME'}`? " if near else ""
        raise UsageError(f"--env {name} is not ADAPTER:NAME", hint=f"{meant}adapters: {', '.join(sorted(adapters))}")
    return replace(options, recipe=ENVIRONMENT, features=tuple(sorted({*options.features, _ADAPTER + adapter})))


def _infer(request: NewRequest, step: Callable[[str], None]) -> ManifestFit:
    """Try the manifest of the release before."""
    from extractor.usecases.draft import attempt

    release, message = request.options.verl, f"verl {request.options.verl} is not supported by this vextract"
    before, nearest = releases.find_before(release), releases.hint_nearest(release)
    assert before is not None
    if not request.experimental:
        hint = "`--experimental` makes a project of the parts that fit, untested, and names the others"
        raise UsageError(message, hint=f"{hint}; docs/releases.md says how to support a release; {nearest}")
    try:
        tried = attempt(release, before, request.origin, offline=request.offline, step=step)
    except SourceError as error:
        # pip's list has every candidate and development version
        if re.search("from versions: (?!none)", error.message):
            raise SourceError(f"{message}, and the package index has no such release", hint=nearest) from None
        problem, hint = f"{message}, and its source could not be read: {error.message}", f"{error.hint}; {nearest}"
        raise SourceError(problem, hint=hint) from None
    return tried


def _find_unrequired(generated: Generated) -> list[str]:
    """Return the packages that a project imports without asking for them.

    Raises:
        CheckFailed: our own code imports what is not vendored.
    """
    from extractor.usecases.verify.closed_imports import NOT_REQUIRED, import_problems

    problems, manifest = import_problems(generated), generated.manifest
    lacking = [line for line in problems if not line.endswith(NOT_REQUIRED)]
    if lacking:
        raise _explain_failure(manifest.release, manifest.borrowed_from or "", lacking)
    return list(problems)


def _explain_failure(release: str, before: str, problems: list[str]) -> CheckFailed:
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return CheckFailed(
        f"no project of verl {release} can be made from what holds of the manifest of {before}: {problems[0]}{more}",
        hint="docs/releases.md tells how to support a release",
        details=problems,
    )


def measure_feature(manifest: Manifest, name: str) -> tuple[int, int]:
    """Return the lines of ours and of verl's that a feature adds to a default project.

    Raises:
        VextractError: verl is not in the cache, or no project can have the feature.
    """
    engines = next(item.engines for item in manifest.features if item.name == name) or manifest.engines
    options = Options("toy", manifest.release, engines[0], "grpo", ())
    bare, having = (
        make_in_memory(NewRequest(replace(options, features=names), offline=True), lambda step: None).sizes
        for names in ((), (name,))
    )
    return having["ours"][1] - bare["ours"][1], having["vendored"][1] - bare["vendored"][1]
