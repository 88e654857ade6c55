"""What a model is loaded from, what it refuses, and where its weights wait."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.models.conftest import MODEL, Make, module

IN_4_BITS = "local.quantization.load_in_4bit=true"
OPTIM = "actor_rollout_ref.actor.optim"


def refusal(function: Callable[[], object]) -> str:
    """The error with a hint that a call ends with."""
    with pytest.raises(module("settings.loading").ConfigError) as caught:
        function()
    assert "\nhint: " in str(caught.value)
    return str(caught.value)


def check(config: Any) -> None:
    """What a run checks first."""
    module("custom")  # it registers what the config names
    module("training.assembly").check_config(config, 1)


def learn(policy: Any, ids: torch.Tensor) -> None:
    """Do a large step."""
    policy.module(ids).logits.logsumexp(-1).mean().backward()
    for group in policy.optimizer.param_groups:
        group["lr"] = 0.05
    policy.optimizer.step()
    policy.optimizer.zero_grad()


def logits_if_merged(policy: Any, config: Any, ids: torch.Tensor) -> torch.Tensor:
    """The logits of a policy, which are those of a plain model with its weights, under a plain model's names."""
    from transformers import AutoModelForCausalLM

    merged = AutoModelForCausalLM.from_config(config)
    merged.load_state_dict(dict(policy.full_weights()))
    logits: torch.Tensor = policy.module.eval()(ids).logits
    torch.testing.assert_close(merged.eval()(ids).logits, logits, atol=1e-5, rtol=0)
    return logits


def save_adapter(policy: Any, folder: Path, ranks: Any) -> None:
    for write in module("workers.shared_parts").parts_of(policy, ranks, sharded=True, copies=True):
        write(folder, ranks)


ROW = '"ground_truth": 2}'
BAD_FILES: list[tuple[str, str | bytes | None, str, str]] = [
    ("gone.parquet", None, "no such file", "data.train_files"),
    ("broken.parquet", "this is no parquet", "as parquet", "data.train_files"),
    ("empty.jsonl", "", "holds no rows", "data.train_files"),
    ("latin.jsonl", b'{"prompt": "1="}\n{"prompt": "\xe9"}', "latin.jsonl:2: not UTF-8", "convert it"),
    ("table.csv", "prompt,ground_truth", "neither .parquet nor .jsonl nor .json", "table.csv').to_parquet("),
    ("truth.jsonl", '{"prompt": "1="}', "neither reward_model nor ground_truth", "ground_truth column"),
    ("number.jsonl", '{"prompt": 3, ' + ROW, "row 0: neither text nor a list of messages", "write text"),
    ("role.jsonl", '{"prompt": [{"content": "1="}], ' + ROW, "row 0, message 0: it has no role", '"role": "user"'),
    ("no_chat.jsonl", '{"prompt": [], ' + ROW, "row 0: there is no message", ""),
    ("none.jsonl", '{"prompt": "", ' + ROW, "row 0: the prompt is empty", "data.prompt_key"),
    ("model.jsonl", '{"prompt": "1=", "reward_model": "2"}', "row 0: reward_model is no object", "ground_truth"),
]  # fmt: skip
# A message that is the prompt of such a row.
BAD_MESSAGES = [
    ('{"role": "user", "value": "1="}', "its content is missing, or null", "write text"),
    ('{"role": "assistant", "content": "2"}', "row 0: the prompt ends with a message of the assistant", "demonst"),
    ('{"role": "user", "content": [{"type": "image"}]}', "part of its content is no text: {'type': 'image'}", "leave"),
    ('{"role": "user", "content": {"a": 1}}', "row 0, message 0: its content is {'a': 1}, of type dict", "its JSON"),
]


def test_a_bad_file_of_data_is_named_with_a_hint(config: Make, tmp_path: Path) -> None:
    data = config().data
    (tmp_path / "directory.parquet").mkdir()
    in_chats = [("chat.jsonl", f'{{"prompt": [{text}], {ROW}', *said) for text, *said in BAD_MESSAGES]
    for name, content, message, hint in [*BAD_FILES, *in_chats, ("directory.parquet", None, "is a directory", "name")]:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(module("errors").DataError) as caught:
            module("data.datasets").dataset_of_files([str(path)], "train", data, None)
        assert message in str(caught.value), name
        assert hint in caught.value.hint, name
        assert f"hint: {caught.value.hint}" in str(caught.value)


@pytest.mark.usefixtures("root")
def test_what_files_of_json_may_hold(tmp_path: Path) -> None:
    read, line = module("data.files").read_rows, '{"prompt": "1\u2028\x85="}'
    for name in ("rows.jsonl", "rows.json", "ROWS.JSONL"):  # lines of JSON may be called JSON
        (tmp_path / name).write_text(f"\ufeff{line}\r\n\n{line}\n", encoding="utf-8")
        assert read(str(tmp_path / name), "it") == [{"prompt": "1\u2028\x85="}] * 2
    (tmp_path / "list.json").write_text('[\n{"prompt": "1="},\n{oops}\n]')
    with pytest.raises(module("errors").DataError, match=r"list.json:3: not valid JSON"):
        read(str(tmp_path / "list.json"), "it")


RAISING = (
    "class Rows(Dataset):\n    def __init__(self, data_files, **more):\n        raise ValueError(data_files, *more)\n"
)
EMPTY = "class Rows(Dataset):\n    def __len__(self):\n        return 0\n"


def test_a_dataset_class_of_ones_own_gets_its_files_as_the_config_has_them(tmp_path: Path, config: Make) -> None:
    datasets, errors = module("data.datasets"), (module("hooks").HookError, module("errors").DataError)
    own = (
        (RAISING, ["a.yaml", "b.yaml"], "ValueError: (['a.yaml', 'b.yaml'], 'tokenizer', "),
        (EMPTY, None, "is empty"),
    )
    for number, (text, files, said) in enumerate(own):
        file = tmp_path / f"rows{number}.py"
        file.write_text(f"from torch.utils.data import Dataset\n\n\n{text}")
        data = config(f"data.custom_cls.path={file}", "data.custom_cls.name=Rows").data
        data.train_files = files
        with pytest.raises(errors) as caught:
            datasets.dataset_of_files(datasets.file_list(files), "train", data, None)
        assert said in str(caught.value)


def test_groups_that_share_a_copy_must_be_of_one_size(config: Make) -> None:
    module("custom")
    check_config, size = module("training.assembly").check_config, "actor_rollout_ref.actor.fsdp_config.fsdp_size"
    said = refusal(lambda: check_config(config(f"{size}=3"), 4))
    assert f"{size} is 3, and 4 processes are no multiple of it" in said
    for allowed, processes in ((2, 4), (3, 1), (8, 4), (-1, 4)):
        check_config(config(f"{size}={allowed}"), processes)


def only(folder: Path, **files: str) -> None:
    """Leave nothing in a directory but these files."""
    shutil.rmtree(folder)
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def without(folder: Path, *patterns: str) -> None:
    for file in (file for pattern in patterns for file in folder.glob(pattern)):
        file.unlink()


def spoil_weights(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.self_attn.q_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def add_a_token(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(folder)


# What makes a directory no whole model, and what is said of it.
SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda at: without(at, "config.json"), "it has no config.json"),
    "no tokenizer": (lambda at: without(at, "tokenizer*", "vocab*"), "no tokenizer at"),
    "git-lfs": (lambda at: (at / "model.safetensors").write_bytes(b"version https://git"), "cannot load the model at"),
    "an adapter": (lambda at: only(at, adapter_config__json='{"base_model_name_or_path": "/m"}'), "a LoRA adapter"),
    "nothing": (lambda at: [only(at), at.rmdir()], "there is no such directory"),
    "empty": (only, "no model at"),
    "no weights": (lambda at: without(at, "model.safetensors"), "no weights in"),
    "made up": (spoil_weights, "lacks 1 weights, such as model.layers.0.self_attn.q_proj.weight"),
    "more tokens": (add_a_token, "the tokenizer has "),
}


def test_a_directory_that_is_no_whole_model(policy: Make, model_path: Path, tmp_path: Path) -> None:
    for case, (spoil, said) in SPOILED.items():
        changed = Path(shutil.copytree(model_path, tmp_path / case.replace(" ", "_")))
        spoil(changed)
        assert said in refusal(lambda at=changed: policy(f"{MODEL}.path={at}")), case


REFUSED = {
    f"{MODEL}.path=nobody/no-such-model": "taken for a name on the hub",
    f"{MODEL}.override_config.attn_implementation=flash_attention_2": "attn_implementation=sdpa",
    f"{OPTIM}.optimizer=AdamQ": "no such optimizer",
    f"{OPTIM}.optimizer=AdamW8bit {OPTIM}.optimizer_impl=torchao.optim": "torchao",
    f"{OPTIM}.optimizer=LBFGS": "the optimizer refuses its settings",
    f"{MODEL}.lora_rank=4 {MODEL}.target_modules=[no_such_layer]": "no LoRA adapter can be put on this model",
    f"{MODEL}.lora_adapter_path=/nowhere/at/all": "no LoRA adapter at /nowhere/at/all",
    f"{MODEL}.lora_rank=4 {MODEL}.lora_alpha=0": "lora_alpha is 0",
}


def test_settings_that_no_policy_can_be_made_with(config: Make, policy: Make) -> None:
    for settings, message in REFUSED.items():
        text = refusal(lambda settings=settings: policy(*settings.split()))
        assert message in text, settings
        assert len(text) < 600 or OPTIM not in settings
    section = config(f"{MODEL}.lora_rank=-1").actor_rollout_ref.model
    assert "lora_rank is -1" in refusal(lambda: module("workers.lora").check_adapter(section))
    made = config("actor_rollout_ref.actor.use_dynamic_bsz=true", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=9")
    assert "a sequence may have 10 tokens" in refusal(lambda: module("settings.setting_checks").check_sizes(made))


def test_devices_that_cannot_be(config: Make) -> None:
    for part, place, message in (
        ("policy", "gpu1", "policy is 'gpu1', which is no device"),
        ("rollout", "cuda:1", "rollout is cuda:1, and torch finds no such device"),
        (f"reference=cpu {MODEL}.lora_rank", "4", "the reference is the policy without it"),
    ):
        settings = f"local.devices.{part}={place}".split()
        assert message in refusal(lambda settings=settings: check(config(*settings))), settings


def test_the_course_of_the_learning_rate_under_both_names(policy: Make) -> None:
    for name in ("lr_scheduler_type", "warmup_style"):
        made = policy(f"{OPTIM}.lr=1.0", f"{OPTIM}.{name}=cosine", f"{OPTIM}.lr_warmup_steps_ratio=0.2")
        made.optimizer.step()
        rates = [made.step_learning_rate() for _ in range(10)]
        assert rates[:3] == pytest.approx([0.0, 0.5, 1.0])
        assert rates[2:] == sorted(rates[2:], reverse=True)
        assert rates[6] == pytest.approx(0.5)  # halfway between the end of the warm-up and the last step


def test_only_the_adapter_is_trained_and_saved(policy: Make, ranks: Any, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    made = policy(f"{MODEL}.lora_rank=4", f"{MODEL}.target_modules=[q_proj,v_proj]")
    before = {name: weight.clone() for name, weight in made.module.named_parameters()}
    ids = torch.arange(4, 16).reshape(2, 6)
    for _ in range(2):
        learn(made, ids)
    changed = {name for name, weight in made.module.named_parameters() if not torch.equal(weight, before[name])}
    assert len(changed) == 4
    assert all("lora_" in name for name in changed)
    assert made.lora.r == 4
    assert {name.rsplit(".", 2)[1] for name, _ in made.adapter_weights()} == {"lora_A", "lora_B"}

    frozen = {name: weight.clone() for name, weight in made.module.named_parameters()}
    logits = logits_if_merged(made, made.module.config, ids)
    assert all(torch.equal(weight, frozen[name]) for name, weight in made.module.named_parameters())

    save_adapter(made, tmp_path / "adapter", ranks)
    start = AutoModelForCausalLM.from_pretrained(made.lora.base_model_name_or_path)
    assert not torch.allclose(start.eval()(ids).logits, logits, atol=1e-3)
    with module("workers.lora").without_adapter(made.module):
        torch.testing.assert_close(start(ids).logits, made.module(ids).logits, atol=0, rtol=0)
    loaded = PeftModel.from_pretrained(start, tmp_path / "adapter").eval()
    torch.testing.assert_close(loaded(ids).logits, logits, atol=0, rtol=0)
    size = sum(file.stat().st_size for file in (tmp_path / "adapter").glob("*.safetensors"))
    assert size < 20_000  # the model has 277 kB

    again = policy(f"{MODEL}.lora_adapter_path={tmp_path / 'adapter'}")
    torch.testing.assert_close(again.module.eval()(ids).logits, logits, atol=0, rtol=0)
    wrong = f"{MODEL}.lora_adapter_path={tmp_path / 'adapter'}"
    assert "has rank 4" in refusal(lambda: policy(wrong, f"{MODEL}.lora_rank=8"))


def _trained(policy: Any) -> list[tuple[str, torch.Tensor]]:
    return [(name, weight) for name, weight in policy.module.named_parameters() if weight.requires_grad]


def test_an_adapter_beside_weights_in_4_bits(config: Make, policy: Make, ranks: Any, tmp_path: Path) -> None:
    """It computes, and learns, what one beside the same weights does where they are unpacked; nothing else changes."""
    assert "there is no adapter" in refusal(lambda: check(config(IN_4_BITS)))
    chosen = f"{MODEL}.target_modules=[q_proj,v_proj]"  # the other layers are packed as well
    packed, dense = policy(f"{MODEL}.lora_rank=4", chosen, IN_4_BITS), policy(f"{MODEL}.lora_rank=4", chosen)
    assert sum(weight.dtype == torch.uint8 for weight in packed.module.parameters()) == 7
    base = dense.module.get_base_model().state_dict()
    own = {name.replace(".base_layer", ""): weight for name, weight in base.items()}
    distance = [(weight - own[name]).abs().max() / own[name].abs().max() for name, weight in packed.full_weights()]
    assert 0.02 < max(distance) < 0.2
    assert min(distance) == 0  # the embeddings are not packed
    for name, weight in packed.full_weights():
        own[name].copy_(weight)
    with torch.no_grad():
        for (_, left), (_, right) in zip(_trained(packed), _trained(dense), strict=True):
            right.copy_(left)
    before = {name: weight.clone() for name, weight in packed.module.named_parameters()}
    ids = torch.arange(4, 16).reshape(2, 6)
    for made in (packed, dense, packed, dense):
        with torch.no_grad():
            made.module.eval()(ids)  # a layout that bitsandbytes has for inference must not stay
        made.module.train()
        learn(made, ids)
    for (name, left), (_, right) in zip(_trained(packed), _trained(dense), strict=True):
        torch.testing.assert_close(left, right, atol=1e-6, rtol=0)
        assert not torch.equal(left, before[name])
    frozen = {name: weight for name, weight in packed.module.named_parameters() if not weight.requires_grad}
    assert all(torch.equal(weight, before[name]) for name, weight in frozen.items())
    logits = logits_if_merged(packed, dense.module.config, ids)
    save_adapter(packed, tmp_path / "adapter", ranks)
    again = policy(f"{MODEL}.lora_adapter_path={tmp_path / 'adapter'}", IN_4_BITS)
    torch.testing.assert_close(again.module.eval()(ids).logits, logits, atol=0, rtol=0)


BY_HAND = {
    ("rollout_is=token",): [[1.5, 2.0, 0.5], [0.25, 1.0, 0.0]],  # the second response has two tokens
    ("rollout_is=sequence",): [[2.0, 2.0, 2.0], [0.25, 0.25, 0.0]],  # 1.5 x 4 x 0.5 = 3, cut off at 2
    ("rollout_is=sequence", "rollout_is_threshold=5.0"): [[3.0, 3.0, 3.0], [0.25, 0.25, 0.0]],
}


def test_a_correction_by_hand(config: Make, policy: Make) -> None:
    """Weights are ratios, truncated at the threshold, and weigh each token's part of the loss."""
    old, mask = torch.full((2, 3), -1.0), torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    ratios = torch.tensor([[1.5, 4.0, 0.5], [0.25, 1.0, 9.0]])  # of the trained policy to the rollout's
    columns = {"old_log_probs": old, "rollout_log_probs": old - ratios.log(), "response_mask": mask}
    advantages = torch.tensor([[2.0] * 3, [-1.0] * 3])
    loss_of = module("vendored.algorithms.core_algos").get_policy_loss_fn("vanilla")
    settings_of = {"loss_agg_mode": "token-mean", "config": policy().actor.config}
    for settings, weights in BY_HAND.items():
        made = config(*(f"algorithm.rollout_correction.{setting}" for setting in settings))
        batch = module("vendored.protocol").DataProto.from_dict(dict(columns))
        corrected, metrics = module("training.rollout_correction").correct(batch, made)
        found = corrected.batch["rollout_is_weights"] * mask
        torch.testing.assert_close(found, torch.tensor(weights))
        assert "rollout_corr/rollout_is_mean" in metrics
        loss = loss_of(old, old, advantages, mask, rollout_is_weights=found, **settings_of)[0]
        assert loss.item() == pytest.approx(-(advantages * torch.tensor(weights)).sum().item() / 5, rel=1e-6)


def test_bypass_mode(release: str, config: Make, policy: Make) -> None:
    """The rollout's log-probabilities become the old ones; from 0.7.1 on the loss is one of bypass mode's own."""
    setting = "algorithm.rollout_correction.bypass_mode=true"
    correction, data = module("training.rollout_correction"), module("vendored.protocol").DataProto
    of_the_rollout = torch.randn(2, 3)
    batch = data.from_dict({"rollout_log_probs": of_the_rollout, "response_mask": torch.ones(2, 3)})
    assert correction.take_rollout_log_probs(batch, config()) is False
    assert correction.take_rollout_log_probs(batch, config(setting)) is True
    assert torch.equal(batch.batch["old_log_probs"], of_the_rollout)
    losses = [policy(*settings).actor.config.policy_loss.loss_mode for settings in ((), (setting,))]
    assert losses == ["vanilla", "vanilla" if release == "0.6.1" else "bypass_mode"]


# Two dtypes stand for two devices: a value that has been moved shows where it is, and is still the same.
HOME, REST = torch.float64, torch.float32


def test_an_optimizer_steps_for_one_share_after_the_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a state that waits for it in float32, or one that stays: the same as a step for all at once."""
    offload = module("workers.offload")
    monkeypatch.setattr(offload, "SHARE", 100)  # bytes: a layer has 3 rows of 3 and a bias
    for rest in (None, REST):
        models = [nn.Sequential(*(nn.Linear(3, 3) for _ in range(3))).to(HOME) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in models]
        steps: list[int] = []
        optimizers[0].register_step_post_hook(lambda *_, steps=steps: steps.append(1))
        offload.SteppedByShares(optimizers[0], HOME, rest)
        for step in range(3):
            for model, optimizer in zip(models, optimizers, strict=True):
                optimizer.zero_grad()
                model(torch.full((1, 3), 1.0 + step, dtype=HOME)).square().sum().backward()
                optimizer.step()
        assert len(steps) == 3 * 3, "each layer is a share"
        for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=0.0 if rest is None else 1e-6, rtol=0)


def test_models_and_optimizers_use_what_rests(policy: Make) -> None:
    """The parts of a policy rest outside of their use; seen by replacing the two places of a real one."""
    made = policy()
    made._weights = module("workers.offload").weights_at_rest(made.module, HOME, REST)
    made._stepped.rest, made._stepped.home = REST, HOME
    first = next(made.module.parameters())
    for _, weight in made.full_weights():
        assert weight.dtype is HOME
    assert first.dtype is REST
    with made.in_use():
        assert first.dtype is HOME
        made.module(torch.arange(4, 8)[None]).logits.sum().backward()
        made.optimizer.step()
    assert {values["exp_avg"].dtype for values in made.optimizer.state.values()} == {REST}


SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 67}
KINDS: dict[str, dict[str, Any]] = {"llama": {"dtype": "bfloat16"}, "mixtral": {"num_local_experts": 4}}


@pytest.mark.parametrize("kind", KINDS)
def test_shares_become_the_model_that_they_are_of(kind: str, ranks: Any, tmp_path: Path) -> None:
    """Under the names that its files had, which are not always the module's; with its dtype and generation config."""
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    start = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **KINDS[kind]))
    start.generation_config.eos_token_id = [3, 5]
    start.save_pretrained(tmp_path / "start")
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "start", dtype="auto")
    own = module("workers.own_shares").own_tensors(trained)
    trained.save_pretrained(tmp_path / "actor", state_dict={})
    assert not list((tmp_path / "actor").glob("*.safetensors"))
    module("run.shards").write_shards(own, tmp_path / "actor" / "weights", ranks)
    load = module("workers.models").load_pretrained
    loaded = load(AutoModelForCausalLM, tmp_path / "actor", dtype="auto")
    assert loaded.generation_config.eos_token_id == [3, 5]
    torch.testing.assert_close(loaded.state_dict(), trained.state_dict(), atol=0, rtol=0)
    loaded.save_pretrained(tmp_path / "out")
    files = [load_file(tmp_path / name / "model.safetensors") for name in ("out", "start")]
    torch.testing.assert_close(*files, atol=0, rtol=0)
