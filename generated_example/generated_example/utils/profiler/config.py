# vextract:vendored from verl 0.9.1: verl/utils/profiler/config.py
# upstream sha256: b955cb4e7cab496ace3db9d5c45746676f63f94315504554e402e26e8bab5f10
# changed: dropped 14 unreachable definitions: NsightToolConfig, TorchProfilerScheduleConfig, TorchProfilerToolConfig
#   and 11 more
# changed: dropped 1 method whose names nothing uses: ProfilerConfig: intersect
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
from typing import Any, Optional

from omegaconf import MISSING

from generated_example.base_config import BaseConfig


@dataclass
class ProfilerConfig(BaseConfig):
    """Worker profiler config.

    The inheritance from BaseConfig provides omegaconf.DictConfig-like interface for a dataclass config.

    Args:
        discrete (bool): True for each task has its own database, False for all tasks in one training step
          share one database.
        all_ranks (bool): Whether to profile all ranks.
        ranks (list[int]): The ranks that will be profiled. Defaults to [].
        global_tool_config (Any): Global tool configuration for all profiling tools.
        relocate_results (bool): When profiling finishes, move backend artifacts that a framework writes
          outside the flat layout into ``save_path``: ``nsys`` reports, which Ray hardcodes under
          ``/tmp/ray/session_latest/logs/nsight`` (the directory is not configurable, see
          https://docs.ray.io/en/latest/ray-observability/user-guides/profiling.html), and rollout engine
          traces, which land in a per-replica sub-directory (see :func:`relocate_rollout_traces`). Runs on
          the profiled ranks.
        finish_hook_cmd (Optional[str]): Shell command executed on the selected ranks **once**, after the last
          profiled step (not once per step). Backend ``stop()`` and ``relocate_results`` still run every profiled
          step, so traces accumulate in ``save_path``; this command then runs a single time to ship them off the
          node, e.g. ``mlx asset upload "$VERL_PROFILE_SAVE_PATH"``. Because it runs once rather than per step,
          uploading the whole ``save_path`` sends each trace exactly once (no re-uploading of the accumulating
          directory). The run context is exported as ``VERL_PROFILE_SAVE_PATH`` (the configured ``save_path``),
          ``VERL_PROFILE_TOOL``, ``VERL_PROFILE_RANK``, ``VERL_PROFILE_PID``, ``VERL_PROFILE_ROLE`` (if known) and
          ``VERL_PROFILE_RAY_NSIGHT_DIR`` (nsys only). ``save_path`` is usually node-local, so the command runs on
          every selected rank/node; pick ``finish_hook_ranks`` so one rank per node uploads that node's directory.
        finish_hook_all_ranks (bool): Run ``finish_hook_cmd`` on every rank.
        finish_hook_ranks (list[int]): Ranks that run ``finish_hook_cmd``. Ignored when ``finish_hook_all_ranks``
          is True. When both are unset the hook falls back to the profiled ranks (``all_ranks``/``ranks``).
    """

    tool: Optional[str] = MISSING
    enable: bool = False
    all_ranks: bool = False
    ranks: list[int] = field(default_factory=list)
    save_path: Optional[str] = MISSING
    tool_config: Any = MISSING  # Just a placeholder, will use configs above directly
    global_tool_config: Optional[Any] = None  # Global tool configuration for all profiling tools
    # --- Finish hook (runs when profiling stops) ---
    relocate_results: bool = False
    finish_hook_cmd: Optional[str] = None
    finish_hook_all_ranks: bool = False
    finish_hook_ranks: list[int] = field(default_factory=list)

    def union(self, other: "ProfilerConfig") -> "ProfilerConfig":
        assert self.tool == other.tool, f"Cannot union ProfilerConfig with different tools: {self.tool} vs {other.tool}"
        return ProfilerConfig(
            tool=self.tool,
            enable=self.enable or other.enable,
            all_ranks=self.all_ranks or other.all_ranks,
            ranks=list(set(self.ranks or []) | set(other.ranks or [])),
            save_path=self.save_path,
            tool_config=self.tool_config,
            global_tool_config=self.global_tool_config or other.global_tool_config,
            relocate_results=self.relocate_results or other.relocate_results,
            finish_hook_cmd=self.finish_hook_cmd or other.finish_hook_cmd,
            finish_hook_all_ranks=self.finish_hook_all_ranks or other.finish_hook_all_ranks,
            finish_hook_ranks=list(set(self.finish_hook_ranks or []) | set(other.finish_hook_ranks or [])),
        )

    def __post_init__(self) -> None:
        """config validation logics go here"""
        assert isinstance(self.ranks, set | list | tuple), (
            f"Profiler ranks must be of type list, got {type(self.ranks)}"
        )
        assert isinstance(self.finish_hook_ranks, set | list | tuple), (
            f"Profiler finish_hook_ranks must be of type list, got {type(self.finish_hook_ranks)}"
        )
        assert self.finish_hook_cmd is None or isinstance(self.finish_hook_cmd, str), (
            f"finish_hook_cmd must be str or None, got {type(self.finish_hook_cmd)}"
        )
