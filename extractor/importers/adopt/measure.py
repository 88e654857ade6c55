"""Check that project and fork compute equal results on one batch."""

import ast
import re
import tempfile
from pathlib import Path
from typing import Any

from extractor.importers.adopt.find_methods import ForkMethod
from extractor.importers.adopt.fork_code import ForkCode
from extractor.importers.adopt.locate import VERSION
from extractor.importers.adopt.method_hooks import FILE, REGISTER, find_arguments, find_columns
from extractor.importers.adopt.recognised import recognise
from extractor.importers.adopt.target_project import NoPlace
from extractor.importers.python_text.segments import decode, restore_upstream_names
from extractor.usecases.verify import interpreter, project_files
from extractor.usecases.verify.parity import find_difference
from extractor.usecases.verify.report import Check, CheckStatus

_TIMEOUT = 300.0
# Files that packages of verl open when they are imported.
_VERSIONS = (VERSION, "verl/single_controller/version/version")


def check_methods(project: Path, directory: Path, python: str | None, *, offline: bool) -> Check:
    """Compare each estimator and loss of a fork with the project's."""
    found = recognise(directory, None, offline=offline)
    fork, read = found.code, project_files.read_project(project)
    hooks = next((file.text for file in read.files.values() if file.path.endswith(f"/{FILE}")), "")
    methods = [_describe_method(fork, method, hooks) for method in found.methods if method.given is None]
    if not methods:
        return Check(
            "methods", CheckStatus.SKIPPED, "the fork has no function of its own that is an estimator or a loss"
        )
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        top = Path(folder) / "fork"
        for path, data in {**dict.fromkeys(_VERSIONS, b"0.0.0\n"), **found.copy.files, **found.copy.own}.items():
            text = decode(data) if path.endswith(".py") else None
            target = top / path
            target.parent.mkdir(parents=True, exist_ok=True)
            restored = data if text is None else restore_upstream_names(text, found.copy.prefixes).encode()
            target.write_bytes(restored)
        job = {
            "package": read.lock.options.package,
            "modules": {file.upstream: file.module for file in read.vendored if file.upstream},
            "methods": methods,
        }
        chosen = interpreter.choose(project, python)
        ours = _run(chosen, {**job, "side": "project", "root": str(project.resolve()), "roots": []}, Path(folder))
        roots = [str(found.copy.root.parent), str(found.copy.top)]
        theirs = _run(
            chosen, {**job, "side": "fork", "root": str(top), "roots": roots, "config": ours["config"]}, Path(folder)
        )
    measured = [_compare(item, theirs["results"], ours["results"]) for item in methods]
    details = tuple(f"{outcome}: {said}" for outcome, said in measured)
    equal, apart = (sum(outcome == one for outcome, _ in measured) for one in ("equal", "differs"))
    if not equal + apart:
        return Check("methods", CheckStatus.FAILED, "your method could not be compared: -v says why", details)
    status = CheckStatus.OK if equal == len(measured) else CheckStatus.FAILED
    verdict = "runs" if equal == len(measured) else "runs in part" if equal else "does not run"
    return Check("methods", status, f"your method {verdict}: {equal} of {len(measured)} equal bit for bit", details)


def _describe_method(fork: ForkCode, method: ForkMethod, hooks: str) -> dict[str, Any]:
    """Return a method's description for the driver."""
    registered = set(re.findall(rf'@{REGISTER[method.kind]}\("([\w-]+)"\)', hooks))
    name = next((item for item in (f"{method.name}_fork", method.name) if item in registered), method.name)
    try:
        arguments, code = find_arguments(fork, method)
    except NoPlace as reason:  # of one that is parked: the project has no hook to call
        arguments, code = [], ""
        lacking = str(reason)
    else:
        lacking = ""
    tensors, arrays = find_columns("\n".join([code, *arguments]))
    texts = [
        node.value
        for where in {where for where, _ in method.functions}
        if (module := fork.find(where)) is not None
        for segment in module.segments
        for node in (ast.walk(segment.node) if segment.node is not None else ())
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"\S*<\S+", node.value)
    ]
    return {
        "key": f"{method.kind} {name}",
        "symbol": method.symbol,
        "lacking": lacking,
        "kind": method.kind,
        "name": name,
        "is_hook": name in registered,
        "is_branch": method.branch is not None,
        "arguments": arguments,
        "tensors": sorted(tensors),
        "arrays": sorted(arrays),
        "texts": texts,
    }


def _run(python: str, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    (result,) = interpreter.run_jobs(python, "methods", {f"the {job['side']}'s code": job}, folder, _TIMEOUT).values()
    return result


def _compare(method: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[str, str]:
    """Return "equal" bit for bit, "differs" or "not compared", and what is to say."""
    name, note = method["name"], ""
    if method["lacking"]:
        return "differs", f"{name}: {method['lacking']}"
    for values, result in theirs[method["key"]].items():
        mine = ours[method["key"]][values]
        if "value" not in result:
            note = note or f"the fork's own function raises {_shorten(result)}"
        elif "value" not in mine:
            return "differs", f"{name}: {_shorten(mine)}"
        else:
            apart = find_difference(result["value"], mine["value"])
            return "differs" if apart else "equal", f"{name}: {apart or 'the same numbers'}"
    return "not compared", f"{name}: {note}"


def _shorten(result: dict[str, Any]) -> str:
    return " ".join(str(result.get("error", result)).split())[:200]
