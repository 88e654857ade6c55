"""Cases of learning rate schedules, and of batches divided by length."""

from typing import Any

import torch

from .cases import Call, Cases, family
from .inputs import SETTINGS
from .pool import make_balanced


@family("torch_functional.schedules", "verl.utils.torch_functional")
def schedules(call: Call) -> Cases:
    """Compute learning rates over a run."""

    def rates(name: str, **settings: Any) -> Any:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        schedule = call.get(f"get_{name}_schedule_with_warmup")(optimizer, **settings)
        found = [schedule.get_last_lr()]
        for _ in range(20):
            optimizer.step()
            schedule.step()
            found.append(schedule.get_last_lr())
        return found

    for name in ("constant", "cosine"):
        yield from call.each(f"{name}/", rates, SETTINGS[f"{name}_schedules"], name)


@family("seqlen_balancing.batch", "verl.utils.seqlen_balancing")
def balancing(call: Call) -> Cases:
    """Divide a batch by a budget of tokens, and put it together again."""

    def there_and_back() -> Any:
        parts, order = call.get("prepare_dynamic_batch")(make_balanced(call.side), max_token_len=45)
        scores = torch.cat([part.batch["scores"] for part in parts])
        return parts, order, call.get("restore_dynamic_batch")(scores, order)

    yield "there and back", there_and_back
