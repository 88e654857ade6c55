"""Turn a hand-edited copy of verl into a project."""

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extractor.importers.adopt import method_states
from extractor.importers.adopt.assemble import assemble, find_breaking_edits
from extractor.importers.adopt.carry import Carried, carry, list_members
from extractor.importers.adopt.differences import is_all_upstreams
from extractor.importers.adopt.file_hooks import copy_files
from extractor.importers.adopt.findings import Copy, ForkEdit, ForkFile, Outcome, Share
from extractor.importers.adopt.list_edits import list_edits, park
from extractor.importers.adopt.method_hooks import FILE, STEP_HOOKS, Hook
from extractor.importers.adopt.method_states import MethodState
from extractor.importers.adopt.own_keys import add_own_keys, carry_defaults
from extractor.importers.adopt.recognised import Recognised, recognise
from extractor.importers.adopt.target_project import OWN, AdoptTarget, Unit
from extractor.importers.python_text.segments import decode, restore_upstream_names
from extractor.importers.runs import report
from extractor.importers.runs.imported_project import ImportedProject
from extractor.importers.runs.run_request import RunRequest
from extractor.pipeline.generate import Generated, complete
from extractor.pipeline.plan import Action, Plan, Reason, Verdict, plan_new
from extractor.pipeline.source import Source
from extractor.usecases.kept_methods import MethodDemand, generate_with_methods, read_edit_demands
from extractor.values import readers
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts
from extractor.values.manifest import Manifest
from extractor.values.modules import name_module
from extractor.values.options import Options
from extractor.values.tree import File, FileKind, Tree

__all__ = ["Adoption", "ForkEdit", "Outcome", "Recognised", "Share", "adopt", "adopt_with_run", "recognise"]

_DATASETS = "dataset_classes"  # the feature by which a project takes a fork's dataset
Say = Callable[[str], None]


@dataclass(frozen=True)
class Adoption:
    """A planned project with the fork's edits, not yet written.

    Attributes:
        options: What the project is made with; of the methods that are left out it has those that the edits need.
        generated: The project without edits: what the lock and the base say was emitted.
        plan: What is written.
        edits: Every edit, and what became of it.
        own: The fork's files that upstream does not have.
        code: The text of the edits that came along.
        outside: Packages that edits import and the project does not require by itself, sorted.
        methods: What became of the fork's estimators, losses, rewards and datasets.
        hooks: The methods that are hooks in the project.
        run: What became of a run of the fork's; None: there is none.
    """

    options: Options
    generated: Generated = field(repr=False)
    plan: Plan = field(repr=False)
    edits: tuple[ForkEdit, ...]
    own: tuple[ForkFile, ...]
    code: tuple[str, ...] = field(repr=False)
    outside: tuple[str, ...]
    methods: tuple[MethodState, ...] = ()
    hooks: tuple[Hook, ...] = field(default=(), repr=False)
    run: ImportedProject | None = None

    @property
    def symbols(self) -> Share:
        """Return the share of differing symbols that were carried over."""
        found = [edit for edit in self.edits if edit.is_symbol and edit.outcome is not Outcome.UPSTREAM]
        return Share(sum(edit.outcome is Outcome.CARRIED for edit in found), len(found))


def adopt(recognised: Recognised, options: Options, manifest: Manifest, say: Say = lambda step: None) -> Adoption:
    """Plan a new project with the fork's edits; write nothing.

    Raises:
        UsageError: git is needed and missing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        wanted = _find_edited(recognised.copy, recognised.source)
        while True:
            say("choosing and rewriting what the project needs")
            generated = generate_with_methods(options, recognised.source, manifest, wanted)
            options = generated.options
            say("carrying your edits over")
            adoption = _carry_over(recognised, generated, options)
            wanted |= _find_demanded(adoption.plan, generated.tree, options.package)
            needed = {name for hook in adoption.hooks for name in hook.features}
            needed |= {STEP_HOOKS for data in adoption.plan.writes().values() if b"before_phase" in data}
            needed |= {"critic"} if recognised.code.list_scripts([("critic.enable", "true")]) else set()
            needed |= {_DATASETS for state in adoption.methods if state.setting.startswith("data.custom_cls")}
            if needed - {*options.features}:
                options = complete(replace(options, features=(*options.features, *needed)), manifest)
            elif not wanted.methods(generated.sliced):
                return adoption


def adopt_with_run(
    recognised: Recognised,
    asked: Options,
    chosen: frozenset[str],
    request: RunRequest,
    manifest: Manifest,
    say: Say = lambda step: None,
) -> Adoption:
    """Plan a project with the fork's edits and a run's settings.

    Args:
        recognised: The fork.
        asked: What the project's options are where the run says nothing else.
        chosen: The options that somebody chose: "engine", "algorithm".
        request: The run.
        manifest: Of the release.
        say: Takes the name of each step.

    Raises:
        UsageError: the run cannot be read, or git is needed and missing.
    """
    engine = asked.engine if "engine" in chosen else None
    found = request.read(manifest.release, manifest, engine, say)
    adoption = adopt(recognised, complete(found.options(asked, chosen, ()), manifest), manifest, say)
    emitted = {file.path: file for file in adoption.generated.tree}
    edited = [
        replace(emitted.get(action.path) or File(action.path, action.kind, b""), data=action.data)
        for action in adoption.plan.actions
        if action.data is not None and action.verdict is not Verdict.ORPHAN
    ]
    settled = found.apply_to_project(Tree.of(edited), adoption.options, recognised.source, adoption.code)
    actions = {action.path: action for action in adoption.plan.actions}
    for file in settled.tree:  # a run's settings count as the owner's edits as well
        action = actions.get(file.path) or Action(file.path, Verdict.ADD, file.kind, Reason.OWNED)
        actions[file.path] = replace(action, data=file.data)
    settled_files = {path: action.data for path, action in actions.items() if action.data is not None}
    for path, data in choose(settled_files, {}, adoption.hooks, asked.package).items():
        actions[path] = replace(actions[path], data=data)
    return replace(adoption, plan=Plan(tuple(actions[path] for path in sorted(actions))), run=settled)


def _carry_over(recognised: Recognised, generated: Generated, options: Options) -> Adoption:
    copy, source = recognised.copy, recognised.source
    target = AdoptTarget(copy, source, generated, options.package, recognised.compared)
    barred = method_states.list_barred_units(target, recognised)
    while True:
        carried = carry(target, barred)
        more = find_breaking_edits(target, carried) or method_states.list_blind_metrics(recognised, target, carried)
        if not more:
            break
        barred |= more
    files = assemble(target, carried)
    edits = tuple(list_edits(target, source, carried))
    own = tuple(_list_own_files(target, carried))
    others = [*method_states.list_others(target, edits), *method_states.list_new_managers(copy, own)]
    others += method_states.list_trainers(recognised.code)
    copied, others = copy_files(recognised, target, files, options.verl, others)
    files |= copied
    hook_files, methods, hooks = method_states.add_hooks(recognised, target, carried, files)
    place = f"{options.package}/{FILE}"
    edits = tuple(method_states.mark_carried(edits, hooks, methods, place))
    methods += others
    files |= hook_files
    hook_files |= copied
    emitted = {path: file.data for path, file in target.files.items()}
    written, lacking = method_states.add_loop(recognised, target, carried, edits, emitted | files, hooks)
    files, hook_files = files | written, hook_files | written
    code = (*(work.core for work in carried.works.values()), *(data.decode() for data in hook_files.values()))
    files |= carry_defaults(copy, (source, *recognised.bases), emitted, options.package)
    tree = {**target.files, **{path: replace(target.files[path], data=files[path]) for path in files.keys() & emitted}}
    files |= add_own_keys(copy, source, tree, code)
    files |= choose(files, emitted, hooks, options.package)
    methods = method_states.mark_idle(recognised, [*methods, *lacking])
    files |= _describe_origin(recognised, emitted, hooks, methods)
    lines = [line for work in carried.works.values() for line in (*work.lines, *work.inner)]
    outside = {line.outside for line in lines if line.outside}.union(*(hook.outside for hook in hooks))
    texts = [file.data.decode() for file in generated.tree if file.path.endswith(".py")]
    known = {name for text in texts for name in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)}
    return Adoption(
        options=options,
        generated=generated,
        plan=_plan(generated, files, park(target, source, edits)),
        edits=edits,
        own=own,
        code=code,
        outside=tuple(sorted(outside.difference(known, sys.stdlib_module_names, [options.package]))),
        methods=tuple(methods),
        hooks=tuple(hooks),
    )


def _describe_origin(
    recognised: Recognised, emitted: Mapping[str, bytes], hooks: Sequence[Hook], methods: Sequence[MethodState]
) -> dict[str, bytes]:
    """Return the README with the fork, and the data that it wants, if the fork has a method."""
    rows = "".join(f", and {row}" for hook in hooks for row in hook.rows if row.endswith("data"))
    said = (
        f"Made of the fork of verl {recognised.source.release} in `{recognised.copy.top.name}`;"
        f" {method_states.summarize(methods)}. It wants the fork's data, files with the columns of verl's (`prompt`,"
        f" `data_source`, `reward_model`){rows}; without any a toy task stands in."
    )
    return {"README.md": report.describe_origin(emitted["README.md"].decode(), said).encode()} if methods else {}


def choose(
    files: Mapping[str, bytes], others: Mapping[str, bytes], hooks: Sequence[Hook], package: str, *, named: bool = True
) -> dict[str, bytes]:
    """Return files changed to select the hooks and hold their keys.

    Args:
        files: The project's files that were changed, by path.
        others: All files, as they were before.
        hooks: The hooks.
        package: The project's.
        named: Name a renamed hook where the config names what it was made of.
    """
    whole = {**others, **files}
    config = {path: data for path, data in whole.items() if path.startswith("config/") and path.endswith(".yaml")}
    found = {
        path: new
        for path, data in config.items()
        if (new := method_states.choose_hooks(data.decode(), hooks, named=named).encode()) != data
    }
    return found | method_states.add_config_fields({**whole, **found}, package)


def _list_own_files(target: AdoptTarget, carried: Carried) -> Iterator[ForkFile]:
    """Yield the fork's own files, with where each was copied."""
    for path in target.copy.own:
        module = name_module(path)
        is_copied = Unit(module, OWN) in carried.works and target.own[module] == path
        inside = (target.copy.root / path.removeprefix("verl/")).relative_to(target.copy.top).as_posix()
        is_upstreams = not is_copied and is_all_upstreams(target.read_fork_text(path))
        yield ForkFile(inside, target.place_own_file(module) if is_copied else None, is_upstreams)


def _plan(generated: Generated, files: Mapping[str, bytes], parked: Mapping[str, bytes]) -> Plan:
    actions = {action.path: action for action in plan_new(generated.tree).actions}
    for path, data in files.items():
        if path not in actions:
            actions[path] = Action(path, Verdict.ADD, FileKind.HOOK, Reason.OWNED, data)
        elif data != actions[path].data:
            actions[path] = Action(path, Verdict.MERGE, actions[path].kind, Reason.CARRIED, data)
    for path, data in parked.items():
        actions[path] = Action(path, Verdict.ORPHAN, FileKind.HOOK, Reason.GONE, data)
    return Plan(tuple(actions[path] for path in sorted(actions)))


def _find_edited(copy: Copy, source: Source) -> MethodDemand:
    """Return methods the fork edited, outside classes that upstream once had."""
    found: set[str] = set()
    for path, data in copy.files.items():
        old, new = decode(source.files[path]), decode(data)
        if path.endswith(".py") and data != source.files[path] and old is not None and new is not None:
            text = restore_upstream_names(new, copy.prefixes)
            if edits := read_edit_demands(old, text, "verl").edited:
                classes = [node for node in readers.parse_python(text).body if isinstance(node, ast.ClassDef)]
                known = [node for node in classes if fingerprint_statement(node) in load_upstream_parts()]
                found |= edits - {f"{node.name}.{name}" for node in known for name in list_members(node)}
    return MethodDemand(edited=frozenset(found))


def _find_demanded(plan: Plan, tree: Tree, package: str) -> MethodDemand:
    """Return the methods that the carried edits need."""
    emitted = {file.path: file.data for file in tree}
    found = MethodDemand()
    for action in plan.actions:
        text = decode(action.data) if action.data is not None else None
        if not action.path.startswith(f"{package}/") or not action.path.endswith(".py") or text is None:
            continue
        if action.path not in emitted:
            found |= read_edit_demands("", text, package)
        elif action.kind is not FileKind.HOOK and action.data != emitted[action.path]:
            found |= read_edit_demands(decode(emitted[action.path]) or "", text, package)
    return found
