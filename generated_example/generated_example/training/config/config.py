# vextract:vendored from verl 0.9.1: verl/trainer/config/config.py
# upstream sha256: 0862845aadcfccbc1b2842070104113e231da813823902da128c6917fe08979a
# changed: dropped 3 unreachable definitions: ProfileConfig, HybridRolloutSwitchConfig, BaseModelConfig
# changed: imports redirected to the modules that define the names, unused ones dropped
# Copyright 2024 Bytedance Ltd. and/or its affiliates
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

from dataclasses import dataclass, field
from typing import Optional

from generated_example.base_config import BaseConfig

__all__ = ["CheckpointConfig"]


@dataclass
class CheckpointConfig(BaseConfig):
    """Configuration for model checkpointing.

    The inheritance from BaseConfig provides omegaconf.DictConfig-like interface for a dataclass config.

    Backend-specific knobs (e.g. mbridge options for Megatron) live on subclasses
    under ``verl/workers/config/checkpoint.py``. Keep this base class limited to
    fields every backend understands.

    Args:
        save_contents (list[str]): What to include in saved checkpoints.
            Options: 'model', 'optimizer', 'extra', 'hf_model'.
        load_contents (list[str]): Contents to load from checkpoint. Defaults to same as save_contents.
        async_save (bool): Whether to save checkpoints asynchronously. Only implemented for Megatron as of now.
        strict (bool): Whether to perform strict validation during weight export
        save_lora_only (bool): When True and the model has LoRA adapters, only
            save LoRA adapter weights instead of the full model state dict.
            Dramatically reduces checkpoint size (e.g. ~150 MiB vs ~54 GiB for a
            27B model). Loaded LoRA-only checkpoints are auto-detected and merged
            into the current model state. Has no effect when the model has no LoRA
            adapters.
    """

    save_contents: list[str] = field(default_factory=lambda: ["model", "optimizer", "extra"])
    load_contents: list[str] = field(default_factory=lambda: ["model", "optimizer", "extra"])
    async_save: bool = False
    strict: bool = True
    save_lora_only: bool = False


@dataclass
class ModuleConfig(BaseConfig):
    """Configuration for external Python module, which can be loaded, executed (and optionally, ``import``ed).

    Args:
        path (str, optional): Path to the module file to load and execute.
        name (str, optional): Name of the module to ``import``. Format: ``"import.path.to.module"``.
            If ``None``, the module will be loaded with a hased name and
                will not be added to ``sys.modules``, thus can not be ``import``ed as ``name``.
    """

    path: Optional[str] = None
    name: Optional[str] = None
