"""Import every vendored module with the required packages only."""

from __future__ import annotations

import tempfile
from pathlib import Path

from extractor.usecases.verify import interpreter, requirements
from extractor.usecases.verify.report import Check, CheckStatus, counted
from extractor.usecases.verify.subject import Subject
from extractor.values.errors import CheckFailed

TIMEOUT = 600.0
OPTIONAL = (
    *("bitsandbytes", "deepspeed", "flash_attn", "liger_kernel", "math_verify", "mathruler", "megatron", "mindspeed"),
    *("mlflow", "peft", "pylatexenc", "qwen_vl_utils", "sglang", "swanlab", "torch_npu", "trl", "uvicorn", "vllm"),
    "wandb",
)


def check_importable(subject: Subject, python: str) -> Check:
    """Import them all in one process, without Ray, verl and every package that pyproject.toml does not bring."""
    modules = [file.module for file in subject.vendored]
    job = {
        "root": str(subject.root.resolve()),
        "package": subject.lock.options.package,
        "modules": modules,
        "forbidden": ["ray", "verl"],
        "required": list(requirements.lines(subject.root)),
        "optional": list(OPTIONAL),
    }
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        try:
            result = interpreter.finish(interpreter.start(python, "imports", job, Path(folder)), TIMEOUT)
        except CheckFailed as error:
            summary = f"the import check {error.message}"
            return Check("importable", CheckStatus.FAILED, summary, tuple(error.hint.splitlines()))
    problems = [f"{module}: {' '.join(error.split())}" for module, error in sorted(result["errors"].items())]
    problems += [f"{name} was imported all the same" for name in result["leaked"]]
    if problems:
        summary = f"{len(result['errors'])} of {counted(len(modules), 'vendored module')} cannot be imported"
        required = {requirements.import_name(name) for name in requirements.declared(subject.root)}
        absent = ", ".join(sorted(required & set(result["missing"])))
        if absent:
            problems.append(f"hint: install the project's requirements: this Python lacks {absent}")
        return Check("importable", CheckStatus.FAILED, summary, tuple(problems))
    blocked = result["blocked"]
    imported = (
        f"{counted(len(modules), 'vendored module')} imported without Ray, verl and {len(blocked)} other packages"
    )
    return Check("importable", CheckStatus.OK, imported, (f"kept from being imported: {', '.join(blocked)}",))
