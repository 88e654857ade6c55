"""The named fix of what tools answer, where upstream has no continuous-token builder yet."""

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.fixes.support import Case, Part, Vendored

PART = Part(roles=("tools", "dataset"), features=("tools", "episodes"))
ANSWER = list(range(50))


class Tokenizer:
    """Renders any messages as the same tokens."""

    def apply_chat_template(self, messages: Any, **kwargs: Any) -> list[int]:
        return ANSWER


def test_long_answers_stay_whole(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """Prompts are cut to `rollout.prompt_length`, and what follows a turn is not."""
    for package, whole in ((fixed, ANSWER), (broken, ANSWER[-10:])):
        module: Any = package.module("vendored.experimental.agent_loop.agent_loop")

        async def render(module: Any = module, **how: Any) -> list[int]:
            loop = SimpleNamespace(
                processor=None,
                tokenizer=Tokenizer(),
                apply_chat_template_kwargs={},
                system_prompt=[],
                rollout_config=SimpleNamespace(prompt_length=10),
                loop=asyncio.get_running_loop(),
            )
            return await module.AgentLoopBase.apply_chat_template(loop, [], **how)

        assert asyncio.run(render()) == ANSWER[-10:]
        assert asyncio.run(render(remove_system_prompt=True)) == whole
