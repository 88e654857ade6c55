# vextract:template - edit freely
"""What environment.json says of a run."""

import json

from __package__.tracking.provenance import ENVIRONMENT, Starts
from __package__.tracking.secrets import argument_without_secret


def test_each_start_is_recorded_with_its_end(tmp_path):
    Starts(tmp_path, 0, 9).end(1, "failed", ValueError("boom\nand more"))
    Starts(tmp_path, 1, 9)  # killed, as far as the file tells
    Starts(tmp_path, 1, 2).end(2, "finished", None)
    starts = json.loads((tmp_path / ENVIRONMENT).read_text())["starts"]
    assert [(start["step"], start["total_steps"]) for start in starts] == [(0, 9), (1, 9), (1, 2)]
    assert [start.get("end", {}).get("outcome") for start in starts] == ["failed", None, "finished"]
    assert starts[0]["end"]["error"] == "ValueError: boom" and starts[0]["packages"]["torch"]


def test_secrets_in_the_command_are_hidden():
    assert argument_without_secret("+judge.api_key=x") == "+judge.api_key=***"
    assert argument_without_secret("data.prompt_key=prompt") == "data.prompt_key=prompt"
