# vextract:vendored from verl 0.9.1: verl/experimental/reward_loop/reward_manager/__init__.py
# upstream sha256: 2200a9920f02c8d4791a6dae7c8cf38abd419d8bb14ceecdf25a051e58b94ff3
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

from generated_example.workers.reward_loop.registry import get_reward_manager_cls, register  # noqa: I001
from generated_example.workers.reward_loop.naive import NaiveRewardManager

__all__ = [
    "NaiveRewardManager",
    "register",
    "get_reward_manager_cls",
]
