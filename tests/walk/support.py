"""The environments that pages are followed in."""

import os
from importlib.util import find_spec
from pathlib import Path

# What blocks of a page may need, and is here.
HAVE = ["vllm"] * (find_spec("vllm") is not None)


def environment(programs: Path, cache: Path | None) -> dict[str, str]:
    """A reader's environment: an activated virtual environment, no GPU, no hub, and nothing of pytest's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "VEXTRACT"))}
    kept |= {"PATH": f"{programs}:{kept['PATH']}", "VIRTUAL_ENV": str(programs.parent), "NO_COLOR": "1"}
    kept |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return kept if cache is None else {**kept, "VEXTRACT_CACHE_DIR": str(cache)}
