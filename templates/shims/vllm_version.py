# vextract:template - edit freely
"""What the vendored code asks about vLLM itself."""

from importlib.metadata import PackageNotFoundError, version

# How deep the engine sleeps between rollouts: 2 gives back weights and KV cache, since new weights come anyway.
VLLM_SLEEP_LEVEL = 2


def get_version(pkg: str) -> str | None:
    """Return the version of a package; None where it is not installed. The CPU build of vLLM has a name of its own."""
    for name in (pkg, f"{pkg}-cpu") if pkg == "vllm" else (pkg,):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
