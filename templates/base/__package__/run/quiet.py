# vextract:template - edit freely
"""Keep what libraries say about each other out of a run's output."""

import logging
import os
import sys
import warnings


def quiet() -> None:
    """Turn off the warnings that a run always causes, and that ask nothing of anybody."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if "TRANSFORMERS_VERBOSITY" not in os.environ:
        os.environ["TRANSFORMERS_VERBOSITY"] = "error"
        if "transformers" in sys.modules:  # a script has imported it before, when it read the variable
            from transformers.utils import logging as messages

            if messages.get_verbosity() == messages.WARNING:  # as it is unless the script says otherwise
                messages.set_verbosity_error()
    warnings.filterwarnings("ignore", message="In CPU autocast")  # float32 is meant: nothing is to be cast
    warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # the critic's values, which nothing changes
    warnings.filterwarnings("ignore", message="IProgress not found")  # transformers' bars, which are turned off
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # on CPUs it looks for kernels that are not needed
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)  # nested tensors ask in an old way
