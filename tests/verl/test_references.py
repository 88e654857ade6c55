"""Settings that follow others stay so."""

from __future__ import annotations

from extractor.usecases.fromrun.references import kept_as_references

PROJECT = ["data.max_response_length", "actor_rollout_ref.rollout.response_length", "trainer.total_epochs"]


def test_what_follows_in_the_project_is_not_written() -> None:
    settings = {"data.max_response_length": 1024, "actor_rollout_ref.rollout.response_length": 1024}
    written, expected = kept_as_references(settings, {"data.max_response_length": 1024}, PROJECT, [PROJECT[1]])
    assert written == {"data.max_response_length": 1024}
    assert expected == {"actor_rollout_ref.rollout.response_length": 1024}


def test_what_the_run_says_itself_is_written_as_it_says_it() -> None:
    settings = {PROJECT[1]: 2048, PROJECT[2]: 3}
    stated = {PROJECT[1]: "${data.max_response_length}", PROJECT[2]: "${of.nothing.here}"}
    written, expected = kept_as_references(settings, stated, PROJECT, [PROJECT[1]])
    assert written == {PROJECT[1]: "${data.max_response_length}", PROJECT[2]: 3}
    assert expected == {PROJECT[1]: 2048}
    assert kept_as_references(settings, settings, PROJECT, [PROJECT[1]]) == (settings, {})
