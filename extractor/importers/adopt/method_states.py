"""Judge how much of a fork's methods runs in its project."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from textwrap import shorten

from extractor.importers.adopt.assemble import METRICS
from extractor.importers.adopt.carry import Carried
from extractor.importers.adopt.find_methods import ESTIMATOR, LOSS, ForkMethod, find_given
from extractor.importers.adopt.findings import Copy, ForkEdit, ForkFile, Outcome
from extractor.importers.adopt.fork_code import ForkCode, is_chosen
from extractor.importers.adopt.list_edits import NOT_PYTHON
from extractor.importers.adopt.loop_slices import REWARDS, find_shaping
from extractor.importers.adopt.method_hooks import FILE, Hook, make_hook, write_loop
from extractor.importers.adopt.own_keys import compose_settings, read_own_keys
from extractor.importers.adopt.recognised import Recognised
from extractor.importers.adopt.target_project import AdoptTarget, NoPlace, Unit
from extractor.importers.python_text.segments import Segment, decode, split
from extractor.importers.python_text.unset_branches import drop_unset_branches
from extractor.importers.runs.copied_code import managers
from extractor.project.side_files import ORPHANED
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts
from extractor.values.modules import name_module

_ALGORITHMS, _LOOP = "verl/trainer/ppo/core_algos.py", "verl/trainer/ppo/ray_trainer.py"
# What chooses a kind of methods, and what is chosen without it.
_SETTINGS = {
    ESTIMATOR: ("adv_estimator", "gae"),
    LOSS: ("loss_mode", "vanilla"),
    "reward manager": ("reward_manager", "naive"),
}
_ACTOR = "actor_rollout_ref.actor."
_POLICY_LOSS = f"{_ACTOR}policy_loss."
# Where else a fork has methods, by the beginning of upstream's path.
_OTHERS = (
    ("verl/workers/reward_manager/", "reward manager"),
    ("verl/experimental/reward", "reward manager"),
    ("verl/utils/reward_score/", "reward function"),
    ("verl/utils/dataset/rl_dataset.py", "dataset"),
    ("verl/workers/critic/dp_critic.py", "critic"),
)
# What a project computes before an update only where something asks for it.
_OF_POLICY = re.compile(r"""["'](?:entropys|old_log_probs|old_\w+_of_logits)["']""")
# What trains in a fork and is the project's own here, by class.
_LOOPS = {"DataParallelPPOActor": "update_policy", "RayPPOTrainer": "fit"}
_LOOPS |= dict.fromkeys(("AgentLoopManager", "AgentLoopWorker", "vLLMRollout"), "generate_sequences")
_LOOPS |= {"RewardLoopWorker": "compute_score_batch", "RewardManagerWorker": "compute_score"}
_LOOPS |= {"RewardLoopManager": "compute_rm_score"}
# How code reads a key of a batch.
_READ = re.compile(r"""(?:batch|data|inputs|meta_info)(?:\[|\.get\(|\.pop\()\s*["'](\w+)["']""")
_TRAINER = "trainer"
_NOBODYS = "which only your own loops write"
_READ_BY_ATTRIBUTE = """
    def __getattribute__(self, name: str) -> object:
        from omegaconf import OmegaConf

        value = super().__getattribute__(name)
        return OmegaConf.create(value) if name in {} and isinstance(value, dict) else value
"""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Runs(str, Enum):
    """Says how much of a method runs."""

    YES = "runs"
    IN_PART = "runs in part"
    NO = "is parked"


@dataclass(frozen=True)
class MethodState:
    """The outcome of one of a fork's methods.

    Attributes:
        kind: "advantage estimator", "policy loss", "reward manager", "reward function", "dataset", "trainer" or "edit".
        name: What the fork calls it.
        runs: How much of it runs.
        where: The project's file that has it, or the one below `orphaned/`.
        setting: What chooses it, where a setting does.
        why: What is missing.
        symbol: The fork's function, `module:name`, where there is one to compare numbers with.
        is_idle: It does not run, and none of the fork's launch scripts chooses it.
    """

    kind: str
    name: str
    runs: Runs
    where: str
    setting: str = ""
    why: str = ""
    symbol: str = ""
    is_idle: bool = False


def mark_idle(recognised: Recognised, states: Sequence[MethodState]) -> list[MethodState]:
    """Return the states, with those marked that do not run and that no launch script of the fork's own chooses.

    Its own scripts are those that choose a method which only the fork has. Without any, all scripts and configs count,
    and only methods that upstream has by that name, too, may be idle.
    """
    known = recognised.source.read(_ALGORITHMS) if _ALGORITHMS in recognised.source.files else ""
    own = [(_SETTINGS[item.kind][0], item.name) for item in states if item.kind in _SETTINGS]
    own = [(key, name) for key, name in own if f'"{name}"' not in known and name == name.lower()]
    own_scripts, found = recognised.code.list_scripts(own), []
    for item in states:
        key, default = _SETTINGS.get(item.kind, ("", ""))
        every = recognised.code.settings if f'"{item.name}"' in known else []
        scripts = own_scripts or [text for text in every if key in text]
        names = [_name_choice(other) for other in states if other.kind == item.kind]
        used = {name for name in names if any(is_chosen(text, key, name) for text in scripts)}
        used |= {_name_choice(item)} if recognised.code.is_asked(item.name) and item.name != default else set()
        used |= {default} if any(key not in text for text in scripts) else set()
        if key and used & set(names) and item.runs is not Runs.YES and _name_choice(item) not in used:
            said = "no script of yours chooses it"
            item = replace(item, is_idle=True, why=f"{said}; {item.why}" if item.why else said)
        found.append(item)
    return found


def _name_choice(state: MethodState) -> str:
    """Return what a setting calls a method: `dapo` for the class DAPORewardManager."""
    return re.sub(r"(Reward)?(Loop)?Manager.*", "", state.name).lower()


def summarize(states: Sequence[MethodState], edits: Sequence[ForkEdit] = ()) -> str:
    """Return the report's first line: what runs, which loops are parked."""
    lost = [edit for edit in edits if edit.outcome is Outcome.ORPHANED and edit.symbol in _LOOPS]
    names = sorted({name for edit in lost for name in edit.parts if name == _LOOPS[edit.symbol]})
    names += [item.name for item in states if item.kind == _TRAINER]
    more = f"; what you changed in {', '.join(names)} is parked, but for what it calls of these" if names else ""
    states = [item for item in states if item.kind != _TRAINER and not item.is_idle]
    if not states:
        return f"no method of yours: no estimator, loss, reward or dataset differs from upstream's{more}"
    whole = judge_overall(states)
    is_mixed = any(item.runs is not whole for item in states)
    names = [f"{item.name} ({item.runs.value})" if is_mixed else item.name for item in states]
    return f"your method {whole.value}: {', '.join(dict.fromkeys(names))}{more}"


def judge_overall(states: Sequence[MethodState]) -> Runs:
    """Return how much runs overall; NO if no algorithm does. Trainers and idle ones do not count beside others."""
    states = [item for item in states if item.kind != _TRAINER and not item.is_idle] or states
    algorithms = [item for item in states if item.kind in (ESTIMATOR, LOSS)] or states
    if states and all(item.runs is Runs.NO for item in algorithms):
        return Runs.NO
    return Runs.YES if {item.runs for item in states} <= {Runs.YES} else Runs.IN_PART


def add_hooks(
    recognised: Recognised, target: AdoptTarget, carried: Carried, files: Mapping[str, bytes]
) -> tuple[dict[str, bytes], list[MethodState], list[Hook]]:
    """Add hooks for methods not carried; return files, states and hooks."""
    texts = {path: file.data.decode() for path, file in target.files.items() if path.endswith(".py")}
    texts |= {path: data.decode() for path, data in files.items() if path.endswith(".py")}
    states, hooks, place = [], [], f"{target.package}/{FILE}"
    for method in recognised.methods:
        path = _find_path_in_project(target, carried, method)
        if path is not None and (method.given is not None or not find_given(recognised.code, method)):
            setting = f"algorithm.adv_estimator={method.name}" if method.kind == ESTIMATOR else ""
            states.append(MethodState(method.kind, method.name, Runs.YES, path, setting, symbol=method.symbol))
            continue
        try:
            hook = make_hook(recognised.code, method, texts, target.package)
        except NoPlace as reason:
            states.append(MethodState(method.kind, method.name, Runs.NO, "orphaned/", why=str(reason)))
            continue
        texts[place] = hook.text
        hooks.append(hook)
        states.append(state_of(hook, place))
    return {place: texts[place].encode()} if hooks else {}, states, hooks


def state_of(hook: Hook, place: str) -> MethodState:
    """Return a hook's state: what runs, and what it lacks."""
    needs, left = ", ".join(hook.needs), ", ".join(hook.left)
    why = [f"the batch has to have {needs}: report it with the reward, or add a column"] if needs else []
    why += [f"your loop gives it {left}, which a project has not: at their defaults"] if left else []
    runs = Runs.IN_PART if why else Runs.YES
    said = "; ".join([*why, *([f"it reads {', '.join(hook.rows)}"] if hook.rows else [])])
    return MethodState(hook.method.kind, hook.method.name, runs, place, hook.setting, said, hook.method.symbol)


def list_others(target: AdoptTarget, edits: Sequence[ForkEdit]) -> Iterator[MethodState]:
    """Yield states of a fork's reward managers, reward functions, datasets, and of its critic where one is used."""
    found: dict[tuple[str, str, str], list[ForkEdit]] = {}
    for start, kind in _OTHERS:
        for edit in edits:
            is_one = edit.upstream_path.startswith(start) and edit.is_symbol and edit.what != "removed"
            is_one = is_one and edit.outcome is not Outcome.UPSTREAM and edit.symbol not in _LOOPS
            if is_one and re.match(r"(async )?(def|class) |@", edit.new.lstrip()):
                is_there = name_module(edit.upstream_path) in target.sides or kind != "critic"
                callers = _list_callers(target.compared[edit.upstream_path].fork, edit.symbol) if is_there else []
                for name in (name for name in callers if name not in _LOOPS):
                    found.setdefault((kind, name, edit.upstream_path), []).append(edit)
        for edit in edits:
            if edit.upstream_path.startswith(start) and edit.why.startswith(NOT_PYTHON):
                found[kind, Path(edit.upstream_path).stem, edit.upstream_path] = [edit]
    names = [name for _, name, _ in found]
    for (kind, name, path), parts in found.items():
        lost = [edit for edit in parts if edit.outcome is not Outcome.CARRIED]
        shown = f"{name} of {path}" if names.count(name) > 1 else name
        edit = (lost or parts)[0]
        yield MethodState(kind, shown, Runs.NO if lost else Runs.YES, edit.where, why=edit.why)


def _list_callers(segments: Sequence[Segment], name: str) -> list[str]:
    """Return what reaches a name and is called by nothing in its file."""
    found, reached = [], [name]
    definitions = [item for item in segments if isinstance(item.node, _DEFINITIONS)]
    for one in reached:  # it grows
        used = re.compile(rf"\b{re.escape(one)}\b")
        above = [item.key for item in definitions if item.key != one and used.search(item.core)]
        reached += [key for key in above if key not in reached]
        found += [] if above else [one]
    return found or [key for key in reached if not key.startswith("_")][:1] or [name]  # they name each other


def list_new_managers(copy: Copy, own: Sequence[ForkFile]) -> Iterator[MethodState]:
    """Yield states of reward managers in files of the fork's own."""
    folders = tuple(start for start, kind in _OTHERS if kind == "reward manager")
    texts = {path: data.decode(errors="replace") for path, data in copy.files.items()}
    known, chosen = managers.list_names(texts), managers.map_branches(texts.get(name, "") for name in managers.PROGRAMS)
    for (path, data), item in zip(copy.own.items(), own, strict=True):
        text = "" if item.is_upstreams or not path.startswith(folders) else data.decode(errors="replace")
        names = managers.list_names({path: text})
        names |= {name for name, classes in chosen.items() if any(f"class {cls}" in text for cls in classes)}
        for name in sorted(names - known):
            known |= {name}
            runs, why = (Runs.YES, "") if item.copied else (Runs.NO, "a run that names it brings it: --from-verl-run")
            yield MethodState("reward manager", name, runs, item.copied or path, why=why)


def list_trainers(fork: ForkCode) -> Iterator[MethodState]:
    """Yield states of the fork's own trainers, which no project takes."""
    found = {
        name: module.path
        for module in fork.mentions("RayPPOTrainer)")
        for name, segment in module.by_name.items()
        if isinstance(segment.node, ast.ClassDef)
        and any("RayPPOTrainer" in ast.unparse(base) for base in segment.node.bases)
        and fingerprint_statement(segment.node) not in load_upstream_parts()
    }
    for name, path in found.items():
        yield MethodState(_TRAINER, name, Runs.NO, path, why=f"{path} trains, and a project has its own loop")


def add_loop(
    recognised: Recognised,
    target: AdoptTarget,
    carried: Carried,
    edits: Sequence[ForkEdit],
    files: Mapping[str, bytes],
    hooks: Sequence[Hook],
) -> tuple[dict[str, bytes], list[MethodState]]:
    """Add what the fork's loop writes; return what edits lack."""
    fork, sources = recognised.code, (recognised.source, *recognised.bases)
    shaping = find_shaping(fork, [source.read(_LOOP) for source in sources if _LOOP in source.files])
    before = {Unit(name_module(edit.upstream_path), edit.symbol): edit for edit in edits}
    old = {unit: edit.old for unit, edit in before.items() if edit.outcome is Outcome.CARRIED}
    found, place = _map_unwritten(fork, target, carried, old, files.values()), f"{target.package}/{FILE}"
    keys = {key for names in found.values() for key in names.split(", ")}
    texts = {path: data.decode() for path, data in files.items() if path.endswith(".py")}
    tries = list[tuple[int, int, str | None, list[str]]]()
    chooses_rows = any(re.match(r"\w*batch\w* = ", statement) for statement in shaping)
    for wanted in (keys, keys | REWARDS) if shaping else (keys,):
        is_asked = place in texts and (wanted or chooses_rows)
        written = (
            write_loop(fork, wanted, texts, target.package, hooks, chooses_rows=chooses_rows) if is_asked else None
        )
        text, needs = written or (None, [])
        there = ast.unparse(ast.parse(text or texts.get(place, "")))
        lost = [statement for statement in shaping if statement not in there]
        lost += [f"it reads {', '.join(needs)}, {_NOBODYS}"] if needs else []
        tries.append((len(lost), text is None, text, lost))
    *_, text, lost = min(tries, key=lambda item: item[:2])
    more = {place: text.encode()} if text is not None else {}
    left = _map_unwritten(fork, target, carried, old, {**files, **more}.values()) if more else found
    whys = {unit: f"it reads {names}, {_NOBODYS}: a run may stop there" for unit, names in left.items()}
    states = [MethodState("edit", unit.key, Runs.IN_PART, before[unit].where, why=why) for unit, why in whys.items()]
    if lost:
        why = f"rewards or the batch are made by your loop alone: {shorten(lost[0], 90)}"
        states.append(MethodState("edit", "fit", Runs.IN_PART, f"{ORPHANED}/{_LOOP}", why=why))
    return more, states


def list_blind_metrics(recognised: Recognised, target: AdoptTarget, carried: Carried) -> dict[Unit, str]:
    """Return edits of metrics that read keys which only the fork's own loops write."""
    units = {unit: "" for unit in carried.works if unit.module == METRICS}
    written = [*(file.data for file in target.files.values()), *(item.core.encode() for item in carried.works.values())]
    for method in recognised.methods if units else ():  # which become hooks
        places = ((method.module.name, method.function), *method.functions)
        modules = ((recognised.code.find(where), name) for where, name in places)
        written += [module.by_name[name].core.encode() for module, name in modules if module and name in module.by_name]
    found = _map_unwritten(recognised.code, target, carried, units, written)
    return {unit: f"it reads {keys}, {_NOBODYS}" for unit, keys in found.items()}


def _map_unwritten(
    fork: ForkCode, target: AdoptTarget, carried: Carried, old: Mapping[Unit, str], written: Iterable[bytes]
) -> dict[Unit, str]:
    """Return the new keys that carried edits read, the fork writes and the project does not."""
    ours, theirs = map(b"\n".join, (written, [*target.copy.files.values(), *target.copy.own.values()]))
    found = {}
    for unit in (unit for unit in old if unit in carried.works):
        emitted = target.sides[unit.module].emitted.get(unit.key)
        known = _list_read(old[unit]) | _list_read(emitted.core if emitted else "")
        new = sorted(_list_read(drop_unset_branches(carried.works[unit].core, fork.is_set)) - known)
        found[unit] = ", ".join(key for key in new if _is_written(key, theirs) and not _is_written(key, ours))
    return {unit: keys for unit, keys in found.items() if keys}


def _list_read(code: str) -> set[str]:
    """Return the keys of a batch that code reads without asking for them first."""
    code = ast.unparse(ast.parse(code))  # without comments
    return {key for key in _READ.findall(code) if f"'{key}' in " not in code}


def _is_written(key: str, code: bytes) -> bool:
    """Tell whether code writes a key of a batch."""
    return re.search(rf"""\[["']{key}["']\](?:\s*=[^=]|\.append\()|["']{key}["']\s*:""".encode(), code) is not None


def mark_carried(
    edits: Sequence[ForkEdit], hooks: Sequence[Hook], states: Sequence[MethodState], place: str
) -> list[ForkEdit]:
    """Return the edits, with those that became hooks marked as carried."""
    functions = {pair for hook in hooks for pair in hook.functions}
    lost = {state.symbol for state in states if state.runs is Runs.NO}
    whole = {hook.method.symbol for hook in hooks if hook.method.branch is not None} - lost
    found = []
    for edit in edits:
        module = name_module(edit.upstream_path) if edit.upstream_path.endswith(".py") else ""
        is_hook = (module, edit.symbol) in functions or f"{module}:{edit.symbol}" in whole
        if edit.outcome is Outcome.ORPHANED and is_hook:
            edit = replace(edit, outcome=Outcome.CARRIED, where=place, why="")
        found.append(edit)
    return found


def choose_hooks(text: str, hooks: Sequence[Hook], *, named: bool) -> str:
    """Return a config that has computed what hooks read, and names renamed ones if `named`."""
    for hook in hooks:
        key = hook.setting.partition("=")[0].rpartition(".")[2]
        if named and hook.name != hook.method.name:
            text = re.sub(rf"(?m)^(\s*{key}: *[\"']?){re.escape(hook.method.name)}\b", rf"\g<1>{hook.name}", text)
        if _OF_POLICY.search(hook.text):
            text = re.sub(r"(?m)^(\s*recompute_old_log_probs:) null\b", r"\1 true", text)
        if 'now["entropy"]' in hook.text:
            text = re.sub(r"(?m)^(\s*calculate_entropy:) false\b", r"\1 true", text)
    return text


def add_config_fields(files: Mapping[str, bytes], package: str) -> dict[str, bytes]:
    """Return files of config classes extended with the fork's loss keys."""
    sections = {"PolicyLossConfig": (_POLICY_LOSS, compose_settings(files, "config/"))}
    sections["ActorConfig"] = (_ACTOR, read_own_keys(files))
    found: dict[str, bytes] = {}
    for path in (path for path in files if path.startswith(f"{package}/vendored/") and path.endswith(".py")):
        for cls, (section, keys) in sections.items():
            text = decode(found.get(path, files[path])) or ""
            segments = split(text) if f"class {cls}" in text else ()
            segment = next((item for item in segments if cls in item.binds), None)
            if segment is None or not isinstance(segment.node, ast.ClassDef):
                continue
            names = {key.removeprefix(section).partition(".")[0] for key in keys if key.startswith(section)}
            known = {ast.unparse(item.target) for item in segment.node.body if isinstance(item, ast.AnnAssign)}
            lacking = sorted(names - known - {"_target_", "policy_loss"})
            if lacking:
                fields = "".join(f"    {name}: object = None  # of the fork's loss\n" for name in lacking)
                nested = [name for name in lacking if any(key.startswith(f"{section}{name}.") for key in keys)]
                fields += _READ_BY_ATTRIBUTE.format(nested) if nested else ""
                core = segment.core.rstrip("\n") + "\n"
                found[path] = text.replace(segment.core, core + fields, 1).encode()
    return found


def _find_path_in_project(target: AdoptTarget, carried: Carried, method: ForkMethod) -> str | None:
    """Return the vendored file that holds a method, or None."""
    if method.branch is not None and not _is_upstreams_branch(target, method):
        return None
    is_there = all(module in target.sides and Unit(module, name) in carried.works for module, name in method.functions)
    return target.sides[method.functions[0][0]].path if method.functions and is_there else None


def _is_upstreams_branch(target: AdoptTarget, method: ForkMethod) -> bool:
    """Tell whether upstream calls the method's functions as the fork does."""
    sides = target.sides.get(method.module.name)
    if sides is None or method.branch is None:
        return False
    item = next((item for item in sides.compared.symbols if item.key == method.function), None)
    if item is None:
        return True
    ours = [ast.dump(statement) for statement in method.branch[0]]
    for text in item.bases:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.If) and [ast.dump(statement) for statement in node.body] == ours:
                return True
    return False


def list_barred_units(target: AdoptTarget, recognised: Recognised) -> dict[Unit, str]:
    """Return units to leave unmerged because a hook replaces them."""
    found = {}
    for method in recognised.methods:
        is_hook = method.branch is not None and not _is_upstreams_branch(target, method)
        if method.given is None and (is_hook or find_given(recognised.code, method)):
            found[Unit(method.module.name, method.function)] = "a hook stands for it"
    return found
