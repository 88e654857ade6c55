# vextract:template - edit freely
"""From the config to rewards: arguments of a manager."""

from __package__.settings import reward_keys


def test_an_argument_that_the_manager_does_not_take_is_an_error_with_those_it_does(train, capsys):
    train("+" + reward_keys.MANAGER_ARGUMENTS + ".wieghts={acc:1.0}", code=2)
    shown = capsys.readouterr().err
    assert "wieghts" in shown and f"hint: {reward_keys.MANAGER_ARGUMENTS} can set" in shown
