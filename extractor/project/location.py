"""Find a project, and check where a new one may go."""

import keyword
import os
import re
import sys
from pathlib import Path

from extractor.project.lock import NAME as LOCK_NAME
from extractor.values.errors import UsageError
from extractor.values.shell import quote_for_shell

# Names that a project's own directories have, or that it imports: a package of that name would hide them.
_OWN = ("config", "custom", "main", "outputs", "templates", "tests")
_IMPORTED = (
    *("accelerate", "bitsandbytes", "codetiming", "datasets", "deepspeed", "einops", "extractor", "flash_attn"),
    *("gymnasium", "hydra", "jax", "matplotlib", "megatron", "mlflow", "numpy", "omegaconf", "packaging"),
    *("pandas", "peft", "pip", "pyarrow", "pydantic", "pytest", "ray", "reasoning_gym", "requests", "rich"),
    *("safetensors", "scipy", "setuptools", "sglang", "sklearn", "swanlab", "sympy", "tensorboard"),
    *("tensordict", "textarena", "tokenizers", "toml", "torch", "torchdata", "torchvision", "tqdm", "trackio"),
    *("transformers", "triton", "trl", "verl", "vextract", "vllm", "wandb", "yaml"),
)


def find(path: Path, *, half_way: bool = False) -> Path:
    """Return the nearest directory above a path that has a lock.

    Args:
        path: A directory.
        half_way: The caller can deal with a project whose upgrade was interrupted.

    Raises:
        UsageError: there is none.
        CheckFailed: an upgrade of it was interrupted.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such directory", hint="pass the directory of a project")
    start = path.resolve()
    for folder in (start, *start.parents):
        if (folder / LOCK_NAME).is_file():
            if not half_way:
                _check_whole(folder)
            return folder
    raise UsageError(
        f"{path}: not inside a vextract project: no {LOCK_NAME} here or above",
        hint="pass the project's directory, or make a project with `vextract new myproj`",
    )


def _check_whole(project: Path) -> None:
    if not (project / ".vextract/upgrade/journal.zip").exists():
        return
    from extractor.project import journal

    with journal.lock_upgrades(project):
        entry = journal.read(project)
        if entry is not None and journal.read_phase(project, entry) is journal.Phase.HALF_WAY:
            raise journal.explain_interrupted(entry)


def name_package(directory: str) -> str:
    """Turn a directory's name into an importable one: my-proj -> my_proj."""
    if directory.isidentifier():
        return directory
    return re.sub(r"[-. ]+", "_", directory.strip()).strip("_").lower()


def check_package(name: str, flag: str) -> None:
    """Refuse a name that cannot be imported or hides another module.

    Args:
        name: The package's name.
        flag: Where it comes from, for the message: "PATH" or "--package".

    Raises:
        UsageError: it cannot be the package's name.
    """
    problem = _find_problem(name)
    if problem is None:
        return
    fixed = re.sub(r"\W+", "_", name.strip()).strip("_")
    if fixed[:1].isdigit():
        fixed = f"p{fixed}"
    if not fixed.isascii() or not fixed or _find_problem(fixed) is not None:
        fixed = f"my_{fixed.lower()}" if fixed.isascii() and fixed else "myproj"
    raise UsageError(f"{flag}: {name!r} cannot be the package's name: {problem}", hint=f"pass --package {fixed}")


def check_target(path: Path) -> Path:
    """Check the place of a new project, and resolve its links.

    Raises:
        UsageError: occupied, not writable, or inside another project.
    """
    target = Path(os.path.abspath(path.expanduser())) if not path.is_symlink() else path.resolve()  # noqa: PTH100
    if target.exists() and not target.is_dir():
        raise UsageError(f"{path}: exists and is no directory", hint="choose another path")
    if target.is_dir():
        _check_empty(path, target)
    parent = target.parent
    above = next(folder for folder in target.parents if os.path.lexists(folder))
    if not above.is_dir():
        raise UsageError(f"{path}: {above} is no directory", hint="choose another path")
    for folder in parent.resolve(), *parent.resolve().parents:
        if (folder / LOCK_NAME).is_file():
            raise UsageError(
                f"{path}: inside another vextract project ({folder})", hint="choose a path outside of that project"
            )
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: {above} is not writable", hint="choose another path, or change its permissions")
    return parent.resolve() / target.name


def _check_empty(path: Path, target: Path) -> None:
    try:
        entries = sorted(item.name for item in target.iterdir())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="choose another path, or change its permissions") from None
    if LOCK_NAME in entries:
        raise UsageError(
            f"{path}: already a vextract project",
            hint=f"restore its vendored files with `vextract sync {quote_for_shell(path)}`",
        )
    if entries:
        raise UsageError(
            f"{path}: not empty (it has {entries[0]}{', ...' if len(entries) > 1 else ''})",
            hint="choose a path that is empty or does not exist",
        )
    if os.path.samefile(target, Path.cwd()):  # noqa: PTH121
        raise UsageError(
            f"{path}: the current directory, which cannot be replaced while a shell is in it",
            hint=f"cd .. && vextract new {quote_for_shell(target.name)}",
        )
    if os.path.ismount(target):
        raise UsageError(
            f"{path}: a mount point, which cannot be replaced", hint=f"choose a directory in it: {path}/myproj"
        )


def _find_problem(name: str) -> str | None:
    folded = name.lower()
    if not name.isidentifier():
        return "not a Python identifier"
    if not name.isascii():
        return "not ASCII, and some file systems write such names in more than one way"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "a keyword of Python"
    if name.startswith("_"):
        return "it starts with an underscore"
    if folded in sys.stdlib_module_names:
        return "a module of Python's standard library"
    if folded in _IMPORTED:
        return "a package that the project itself may import"
    if folded in _OWN:
        return "a file or directory of the project itself"
    return None
