"""Hand adapters to vLLM, in this process or as a server, and compare with the policy. Run in a project, by its text.

    python -c "$(cat adapter_driver.py)" FOLDER OVERRIDES...

Prints for three adapters, one after the other, how far the log-probabilities of greedy tokens are from the policy's,
how many tokens are others, and whether they are other ones than before.
"""

import json
import sys
from pathlib import Path

import torch
from adapted.data.toy import ensure_toy_model
from adapted.episodes.turns import context_batch
from adapted.run.distributed import Ranks
from adapted.settings.loading import load_config, settle_device
from adapted.workers.policy import Policy
from adapted.workers.rollout_engine import build_rollout_engine
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

LENGTH = 6


def main(folder: Path, overrides: list[str]) -> None:
    torch.set_num_threads(1)
    path = folder / "model"
    ensure_toy_model(path)
    config = Qwen2Config.from_pretrained(path)
    config.hidden_size, config.num_attention_heads, config.num_key_value_heads = 64, 2, 1
    model = Qwen2ForCausalLM(config).float()
    model.generation_config.pad_token_id = model.generation_config.eos_token_id = config.eos_token_id
    model.save_pretrained(path)
    settings = [
        "scale=toy",
        f"data.max_response_length={LENGTH}",
        f"actor_rollout_ref.model.path={path}",
        "actor_rollout_ref.model.lora_rank=8",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.ignore_eos=true",
        f"trainer.default_local_dir={folder / 'run'}",
    ]
    config = load_config(Path("config"), [*settings, *overrides])
    settle_device(config)
    tokenizer = AutoTokenizer.from_pretrained(path)
    ranks = Ranks()
    policy = Policy(config, tokenizer, ranks, str(path), total_steps=1)
    engine = build_rollout_engine(config, tokenizer, ranks, policy)
    contexts = [tokenizer(text)["input_ids"] for text in ("1=", "37=", "12345=", "5+6=")]
    before = None
    for _ in range(3):
        with torch.no_grad():
            for name, weight in policy.module.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0.0, 0.2)
        engine.sync_weights()
        prompts = context_batch(contexts, tokenizer.pad_token_id, {"do_sample": False})
        with engine.session():
            batch = engine.generate_sequences(prompts).batch
        off, others = compared(policy.module, contexts, batch)
        changed = before is None or not torch.equal(before, batch["responses"])
        print(json.dumps({"off": off, "others": others, "changed": changed}), flush=True)
        before = batch["responses"]
    engine.close()
    ranks.close()


@torch.no_grad()
def compared(model: torch.nn.Module, contexts: list[list[int]], batch: object) -> tuple[float, int]:
    """Return the largest difference of log-probabilities, and the number of tokens that are not the likeliest."""
    off, others = 0.0, 0
    for row, context in enumerate(contexts):
        written = batch["responses"][row].tolist()  # type: ignore[index]
        logits = model(torch.tensor([[*context, *written]])).logits[0, len(context) - 1 : -1].float()
        log_probs = logits.log_softmax(-1)
        others += int((log_probs.argmax(-1) != torch.tensor(written)).sum())
        own = log_probs.gather(-1, torch.tensor(written)[:, None])[:, 0]
        off = max(off, (own - batch["rollout_log_probs"][row]).abs().max().item())  # type: ignore[index]
    return off, others


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
