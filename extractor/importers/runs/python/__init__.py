"""A program in Python that starts training, followed as it would go, and never run: a script of TRL's, or of verl's.

`follower` follows it: `statements` and `unentered` say where it goes, `expressions`, `names`, `calls` and `imports`
what is worth what, `library` what functions of Python's and of libraries give, `parsing` what its command line says,
and `files` what is in its config files. `values` is what names stand for, `states` what there is at one point, `run`
what these share, and `syntax` what the text is made of. `models` says where a model has come from; `scorers` and
`given` write down what reward functions are made of, by the text and by what the trainer gets. `verls` is what configs
of verl's are put together by.
"""
