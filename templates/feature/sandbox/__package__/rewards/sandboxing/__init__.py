# vextract:template
"""What runs a program that the model wrote, and what judges it: in processes of their own, apart from the trainer.

For each program there is a `supervisor`, which forks a candidate and, where there are asserts, a judge:

- candidate: runs the program, and then answers calls of its functions, by value. It knows no expected value, has no
  descriptor but its own three and the two of its channel, and sees none of the trainer's files and processes.
- judge: has the asserts, and evaluates them with stand-ins (`remote`) for what the program defines. All that it
  takes from the candidate is plain data (`values`), over a pipe (`channel`), so that it compares builtins only.
- keeper: the parent of each, which ends all that it leaves behind.

`isolation` is what holds them apart: `landlock`, `seccomp`, another user id, limits. Where `bubblewrap` is installed,
the server is in it. Nothing is written to disk. The modules below import only the standard library and each other: the
`server`, which forks supervisors for the trainer's `client`, imports them as a package of its own.
"""
