# vextract:vendored from verl 0.9.1: verl/utils/reward_score/__init__.py
# upstream sha256: 1b7281fa32b0de6bff68b6f358e0493562baeab5de771c1cd3fa6a16653ad7ce
# changed: dropped 1 unreachable definition: _default_compute_score
# changed: taken from this project's own code: default_compute_score
# changed: unused imports dropped
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
# from . import gsm8k, math, prime_math, prime_code

from generated_example.shims.not_vendored import default_compute_score


def get_default_compute_score(reward_name: str | None):
    """Get the default compute_score function based on the reward manager type."""
    return default_compute_score


__all__ = ["default_compute_score"]
