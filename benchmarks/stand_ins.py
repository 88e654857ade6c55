"""What a launch script trains on here in place of its own models, data and sizes: one table, and what it is made from.

`SETTINGS` is all that differs from the script's project. Models are random, of the family that the script's model is
named after, with a character tokenizer; some answers are one token each, so that rewards differ by luck. Rows have
the script's columns and its data source, and of a reward function of its own the keys that its text reads.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from extractor.values import readers

PROMPT, RESPONSE, PROMPTS = 192, 24, 2
IN_TEMPLATE = 3000  # a prompt in a run's own words
_ROWS = {"data.train_files": 8, "data.val_files": 2}
ACTOR, ROLLOUT, JUDGE = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "reward_model.model.path"

Config = Mapping[str, Any]
# Of the project's config, flat, and a folder: the value, or `KEEP`.
Chosen = Callable[[Config, Path], Any]
KEEP = object()
_POINTER, _PARQUET = b"version https://git-lfs", b"PAR1"


def _at_most(most: int) -> dict[str, int]:
    return {"most": most}


def _model(key: str) -> Chosen:
    return lambda config, folder: str(model(folder, family_of(str(config[key]))))


def _mini_batches(config: Config) -> int:
    """Return how many mini-batches a batch has here: two where the script has several."""
    batch, mini = config["data.train_batch_size"], config[f"{ACTOR}.ppo_mini_batch_size"]
    return min(2, max(1, batch // mini))


def _drawn(config: Config, folder: Path) -> Any:
    drawn, batch = config.get("data.gen_batch_size"), config["data.train_batch_size"]
    return KEEP if drawn is None else PROMPTS * _mini_batches(config) * min(2, max(1, drawn // batch))


def _rows(key: str, number: int) -> Chosen:
    """Return what makes rows up; those that are with the script stay."""
    return lambda config, folder: KEEP if _are_there(config[key]) else str(rows(folder, config, number))


def answered_by(answer: Any, config: Config, folder: Path) -> None:
    """Write the rows once more, with answers of another form."""
    for key, number in _ROWS.items():
        if not _are_there(config[key]):
            rows(folder, config, number, answer)


def _are_there(said: Any) -> bool:
    files = [said] if isinstance(said, str) else said or []
    return bool(files) and all(file and _is_whole(Path(file).expanduser()) for file in files)


def _is_whole(path: Path) -> bool:
    """Tell whether a file is there, and neither cut off nor a pointer of Git LFS to one."""
    if not path.is_file():
        return path.exists()
    data = path.read_bytes()
    return not data.startswith(_POINTER) and (path.suffix != ".parquet" or data.endswith(_PARQUET))


def _cut(config: Config, folder: Path) -> Any:
    """Return what becomes of longer prompts: those that are with the script are as long as they are."""
    own = [_are_there(config[key]) for key in ("data.train_files", "data.val_files")]
    return "left" if any(own) else KEEP


def _longest(config: Config, folder: Path) -> int:
    """Return how long prompts may be, in characters."""
    own = config["data.custom_cls.path"]
    return IN_TEMPLATE if own or [*Path().glob(_WRITES)] or _dataset_is_edited() else PROMPT


def _dataset_is_edited() -> bool:
    """Tell whether a fork's dataset is in the project: it may write prompts of its own words."""
    lock = readers.parse_toml(Path("vextract.lock").read_text(encoding="utf-8"))
    emitted = {file["path"]: file["sha256"] for file in lock["files"] if file.get("upstream") == _DATASET}
    return any(hashlib.sha256(Path(path).read_bytes()).hexdigest() != digest for path, digest in emitted.items())


# The dataset class of a run of EasyR1's that has a template for prompts.
_DATASET = "verl/utils/dataset/rl_dataset.py"
_WRITES = "*/custom/easyr1_dataset.py"


# What is replaced, in every project that has the key and sets it. A number that is not negative becomes `most` at most.
SETTINGS: dict[str, Chosen | dict[str, int] | Any] = {
    # Models and data.
    "actor_rollout_ref.model.path": _model("actor_rollout_ref.model.path"),
    "actor_rollout_ref.model.lora_adapter_path": None,
    "actor_rollout_ref.ref.model.path": _model("actor_rollout_ref.ref.model.path"),
    "critic.model.path": _model("critic.model.path"),
    "critic.model.tokenizer_path": _model("critic.model.tokenizer_path"),
    "local.prime.path": _model("local.prime.path"),
    JUDGE: lambda config, folder: str(model(folder, "judge")),
    "reward.reward_model.model_path": lambda config, folder: str(model(folder, "judge")),
    "reward_model.model.input_tokenizer": _model("actor_rollout_ref.model.path"),
    "local.reward_model.input_tokenizer": _model("actor_rollout_ref.model.path"),
    **{key: _rows(key, number) for key, number in _ROWS.items()},
    "data.truncation": _cut,
    # Sizes.
    "data.train_batch_size": lambda config, folder: PROMPTS * _mini_batches(config),
    "data.gen_batch_size": _drawn,
    "data.val_batch_size": _at_most(2),
    "data.val_max_samples": _ROWS["data.val_files"],  # of a file that is in the checkout, too
    "data.max_prompt_length": _longest,
    "data.max_response_length": RESPONSE,
    f"{ACTOR}.ppo_mini_batch_size": PROMPTS,
    "critic.ppo_mini_batch_size": PROMPTS,
    f"{ROLLOUT}.n": _at_most(2),
    f"{ROLLOUT}.val_kwargs.n": _at_most(2),
    f"{ROLLOUT}.max_model_len": lambda config, folder: _longest(config, folder) + RESPONSE,
    "local.env.max_turn_tokens": _at_most(RESPONSE),
    "reward.reward_kwargs.overlong_buffer_cfg.len": _at_most(RESPONSE // 2),
    "reward.reward_kwargs.max_resp_len": RESPONSE,
    "reward_model.overlong_buffer.len": _at_most(RESPONSE // 2),
    "algorithm.filter_groups.max_num_gen_batches": 10,  # a random model is rarely right
    "trainer.critic_warmup": _at_most(1),
    "trainer.total_training_steps": 2,
    # The machine.
    f"{ACTOR}.fsdp_config.param_offload": False,
    f"{ACTOR}.fsdp_config.optimizer_offload": False,
    "actor_rollout_ref.ref.fsdp_config.param_offload": False,
    "critic.model.fsdp_config.param_offload": False,
    "critic.model.fsdp_config.optimizer_offload": False,
    "local.reward_model.param_offload": False,
    "data.filter_overlong_prompts": lambda config, folder: False if _cut(config, folder) == "left" else KEEP,
    "data.filter_overlong_prompts_workers": 1,
    "data.dataloader_num_workers": 0,
    "local.num_threads": 1,
    # Where a run writes, and goes on from.
    "trainer.default_local_dir": lambda config, folder: str(folder / "run"),
    "trainer.rollout_data_dir": lambda config, folder: str(folder / "rollouts"),
    "trainer.validation_data_dir": lambda config, folder: str(folder / "validations"),
    "trainer.resume_mode": "disable",
    "trainer.logger": "[console]",
    "local.checkpoint.begin_from": None,
}
_TEACHER = re.compile(r"distillation\.teacher_models\.\w+\.model_path")
# What is replaced where a script leaves it empty, as well.
_ALWAYS = (
    "trainer.default_local_dir",
    "actor_rollout_ref.model.path",
    "data.train_files",
    "data.val_files",
    "local.num_threads",
    "trainer.total_training_steps",
)


def overrides(config: Config, folder: Path) -> list[str]:
    """Return the settings that take the place of a project's own.

    Args:
        config: The project's, flat.
        folder: For models, rows and what the run writes.
    """
    found = []
    teachers = {key: _model(key) for key in config if _TEACHER.fullmatch(key)}
    for key, value in {**SETTINGS, **teachers}.items():
        if key not in config or (config[key] in (None, "", []) and key not in _ALWAYS):
            continue
        if isinstance(value, dict):
            own = config[key]
            value = min(own, value["most"]) if isinstance(own, int) and own >= 0 else KEEP
        elif callable(value):
            value = value(config, folder)
        if value is not KEEP and value != config[key]:
            found.append(f"{key}={'null' if value is None else value}")
    return found


# The first that a name fits, in transformers' names. For a model of pictures it is one of texts alone:
# transformers' processors need torchvision.
_FAMILIES = (
    (r"qwen-?3-?vl", "qwen3"),
    (r"qwen-?3.*a\d+b|qwen1?.*moe", "qwen3_moe"),
    (r"qwen-?3", "qwen3"),
    (r"llama|deepseek-?(llm|coder|math)|yi-|vicuna", "llama"),
    (r"gemma", "gemma2"),
    (r"mistral|mixtral", "mistral"),
)


def family_of(name: str) -> str:
    """Return the family that a model's name says, in transformers' names; what says nothing is Qwen2."""
    return next((family for pattern, family in _FAMILIES if re.search(pattern, name, re.IGNORECASE)), "qwen2")


# Tokens of several characters: right and wrong answers in the forms that scorers look for.
_PHRASES = tuple(
    form.format(number)
    for number in (1, 2)
    for form in (" \\boxed{{{}}}", "#### {}", "Answer: {}", "<answer>{}</answer>", "<think>{}</think>")
)
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer() -> Any:
    """Make the tokenizer: printable characters of ASCII, and some phrases."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate((*_SPECIAL, *alphabet))}
    made = Tokenizer(models.BPE(vocabulary, [], unk_token=None))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    found = PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=_SPECIAL[2],
        pad_token=_SPECIAL[0],
        additional_special_tokens=[_SPECIAL[1]],
        padding_side="left",
        model_max_length=32768,
    )
    found.add_tokens(list(_PHRASES))
    found.chat_template = _TEMPLATE
    return found


def model(folder: Path, family: str) -> Path:
    """Make a random model of a family, once, beside the folder; returns where it is.

    Args:
        folder: Of a run.
        family: transformers' name; "judge" is a model that classifies.
    """
    place = folder.parent / f"model-{family}"
    if place.is_dir():
        return place
    import torch
    import transformers

    words = tokenizer()
    more = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32} if "moe" in family else {}
    config = transformers.AutoConfig.for_model(
        "qwen2" if family == "judge" else family,
        **_SIZES,
        **more,
        vocab_size=len(words),
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    torch.manual_seed(0)
    if family == "judge":
        config.num_labels = 1
    kind = transformers.AutoModelForSequenceClassification if family == "judge" else transformers.AutoModelForCausalLM
    made = kind.from_config(config)
    words.save_pretrained(place)
    made.save_pretrained(place)
    return place


_SIZES = {
    "hidden_size": 32,
    "head_dim": 8,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


# The data source that a file of rows is named after, in the names that verl's own scorers know.
_SOURCES = (
    (r"geo(metry)?_?3k", "hiyouga/geometry3k"),
    (r"gsm8k", "openai/gsm8k"),
    (r"aime|dapo", "math_dapo"),
    (r"math", "lighteval/MATH"),
    (r"search|nq|hotpot", "searchR1_nq"),
)
# What is right, where it is no text.
_TRUTHS = {"searchR1_nq": {"target": ["1"]}}
# Forms of answers in which rows are made once more where a scorer raises at those of the usual one.
ANSWERS: tuple[Any, ...] = (
    1.0,
    "true",
    "A",
    ["1"],
    {"answer": "1"},
    '["1"]',
    '{"answer": "1"}',
    '{"inputs": ["1"], "outputs": ["1"]}',
)
# How code asks which data source a row is of.
_ASKED = re.compile(
    r"data_source\w*\s*(?:[=!]=|in\s*[\[({]|\.startswith\()\s*[\"']([^\"']+)[\"']|[\"']([^\"']+)[\"']\s*in\s+data_source"
)
_KEYS = {
    "ground_truth": re.compile(r"ground_truth(?:\[|\.get\()\s*[\"'](\w+)[\"']"),
    "extra_info": re.compile(r"(?:extra_info|\binfo)(?:[\"']\])?(?:\[|\.get\()\s*[\"'](\w+)[\"']"),
    "reward_model": re.compile(r"[\"']reward_model[\"']\]\[\s*[\"'](\w+)[\"']"),
    "row": re.compile(r"non_tensor_batch(?:\[|\.get\()\s*[\"'](\w+)[\"']"),
}
# What is in a batch besides the columns of its rows.
_OF_A_BATCH = {
    "__num_turns__",
    "agent_name",
    "index",
    "messages",
    "interaction_kwargs",
    "multi_modal_data",
    "multi_modal_inputs",
    "raw_prompt",
    "raw_prompt_ids",
    "reward_scores",
    "tool_extra_fields",
    "tools_kwargs",
    "uid",
}


def rows(folder: Path, config: Config, number: int, answer: Any = "1") -> Path:
    """Write rows for a project's config; returns the file.

    Args:
        folder: Where.
        config: The project's, flat.
        number: Of rows.
        answer: What is right, and what a row has of a name of which nothing is known.
    """
    import pandas

    files = [*Path().glob("*/custom/verl_*.py"), *Path().glob("*/custom/from_run/**/reward_score/__init__.py")]
    files += [
        *Path().glob("*/custom/from_run/**/reward_manager/*.py"),
        *Path().glob("*/custom/from_run/**/reward_loop/*.py"),
    ]
    code = "\n".join(map(_text_of, sorted(files)))
    named = f"{config['data.train_files']} {config['data.val_files']} {config['trainer.project_name']}"
    function = "\n".join(map(_text_of, Path().glob("*/custom/verl_reward.py")))  # where there is one, it alone scores
    known = _asked_for(function) or [*_asked_for(code), *_keys_looked_up(code)]
    known = known or _asked_for("\n".join(map(_text_of, _copies())))
    usual = next((name for pattern, name in _SOURCES if re.search(pattern, named, re.IGNORECASE)), "openai/gsm8k")
    here = [name for name in _own_sources() if name.lower() in named.lower()]
    within = {second for _, second in _ASKED.findall(code)}  # a program may look for one, and then for another
    source = "_".join(here) if len(here) > 1 and within.issuperset(here) else next(iter(here), usual)
    source = known[0] if known and source not in known else source
    # A program that scores by itself calls few scorers; verl's default function calls all that there are.
    of_program = [path for path in _copies() if path not in files] if [*Path().glob("*/custom/verl_program.py")] else []
    copied = list(map(_text_of, of_program))
    keys = {name: sorted(set(pattern.findall("\n".join([code, *copied])))) for name, pattern in _KEYS.items()}
    branches = "\n".join(_branches(code, source))
    if branches:
        called = [_text_of(path) for path in _copies() if re.search(rf"\b{path.stem}\b", branches)]
        keys["ground_truth"] = sorted(set(_KEYS["ground_truth"].findall("\n".join([branches, *called]))))
    system = [{"role": "system", "content": "Add."}] if re.search(r"prompt_key\]\[1\]", code) else []
    # A dataset class that adds to a prompt's text, and makes messages of it.
    is_text = [*Path().glob(_WRITES)]
    is_text = is_text or re.search(r"""["']content["']: *\w+(?:\[[^]]+\])? *\+""", code)
    # What functions of TRL's form take besides, as the conversion's report says.
    report = Path("from_run.md").read_text(encoding="utf-8") if Path("from_run.md").is_file() else ""
    taken = re.findall(r"rows need what they take(?:, or they go without)?: ([\w, ]+)", report)
    columns = [name for names in taken for name in re.findall(r"\w+", names)]
    made = []
    for index in range(number):
        question = f"{index} + {1 - index} = ?"
        truth: Any = _TRUTHS.get(source) or dict.fromkeys(keys["ground_truth"], answer) or answer
        row = {
            **dict.fromkeys(columns, answer),
            **{name: _value(name, code, answer) for name in sorted({*keys["row"]} - _OF_A_BATCH)},
            str(config["data.prompt_key"]): question if is_text else [*system, {"role": "user", "content": question}],
            str(config["data.reward_fn_key"]): source,
            "ability": "math",
            "reward_model": {**dict.fromkeys(keys["reward_model"], answer), "style": "rule", "ground_truth": truth},
            "extra_info": {
                **{name: _value(name, code, answer) for name in keys["extra_info"]},
                "index": index,
                "split": "train",
                "question": question,
                "answer": answer,
            },
        }
        made.append(row)
    # A class of the script's own may read directories.
    own = config["data.custom_cls.path"]
    own_text = Path(own).read_text(encoding="utf-8") if own and Path(own).is_file() else "read_rows("
    is_named = re.search(r"\.\w+\W*$", str(config["data.train_files"]))
    is_directory = "read_rows(" not in own_text and not is_named
    place = folder / (f"rows-{number}" if is_directory else f"rows-{number}.parquet")
    file = place / "train.parquet" if is_directory else place
    file.parent.mkdir(parents=True, exist_ok=True)
    pandas.DataFrame(made).to_parquet(file)
    return place


def _copies() -> list[Path]:
    """Return the files that came along with a run's own."""
    return sorted(Path().glob("*/custom/from_run/**/*.py"))


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _asked_for(code: str) -> list[str]:
    """Return the data sources that code asks for."""
    return [first or second for first, second in _ASKED.findall(code)]


def _branches(code: str, source: str) -> list[str]:
    """Return what code does with rows of a data source that it asks for: up to where it asks for the next."""
    parts = re.split(r"\n *(?=(?:el)?if\b.*data_source|else:)", code)
    return [part for part in parts if re.match(r"(?:el)?if\b", part) and f'"{source}"' in part.replace("'", '"')]


def _value(name: str, code: str, answer: Any) -> Any:
    """Return what a row has of a name.

    That is what code compares it with, or scores under the names that it looks up in it, or else the answer.
    """
    compared = re.search(rf"[\"']{name}[\"'][\])]+\s*(?:==|in\s*[\[({{])\s*[\"']([^\"']+)[\"']", code)
    asked = rf"\b{name}(?:[\"'][\])])?(?:\[|\.get\()\s*[\"'](\w+)[\"']"
    looked_up = re.findall(asked, code)
    return compared[1] if compared else dict.fromkeys(looked_up, 1.0) or answer


def _own_sources() -> list[str]:
    """Return the data sources that only the run's checkout scores, as the project's report says."""
    report = Path("from_run.md")
    text = report.read_text(encoding="utf-8") if report.is_file() else ""
    return [name for found in re.findall(r"by rules of its own \(([^)]+)", text) for name in found.split(", ")]


def _keys_looked_up(code: str) -> list[str]:
    """Return the first data source of each table, or list, that code looks them up in."""
    tables = [*re.findall(r"(\w+)(?:\.get\(|\[)data_source", code), *re.findall(r"data_source\w* in (\w+)", code)]
    return [key for name in tables for key in re.findall(rf"\b{name}\s*=\s*[\[{{(]\s*[\"']([^\"']+)[\"']", code)]
