# vextract:template - edit freely
"""What is in a checkpoint's files is compared with what was written."""

import random

from test_checkpoint import EVERY_STEP, STEPS, to_resume


def flip(file, rng):
    """Flip one bit, and return a function that flips it back."""
    data = bytearray(file.read_bytes())
    place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)

    def write():
        data[place] ^= bit
        file.write_bytes(data)

    write()
    return write


def test_a_flipped_bit_in_any_file_is_named_and_the_checkpoint_before_taken(train, capsys):
    run, rng = train(EVERY_STEP, f"{STEPS}=2"), random.Random(0)
    for file in [path for path in (run / "global_step_2").rglob("*") if path.is_file()]:
        flip_back = flip(file, rng)
        capsys.readouterr()
        assert to_resume(run) == run / "global_step_1"
        shown = capsys.readouterr().err
        assert "global_step_2 is damaged: " in shown and file.relative_to(run / "global_step_2").as_posix() in shown
        flip_back()
    assert to_resume(run) == run / "global_step_2"
