# vextract:template base/__package__/rewards/__init__.py
"""What rewards are made of. Hooks in `custom/` use these modules; none of them needs anything else of this package.

- text: rules: answers in a text, tags, lengths, repetition
- verified_math: whether two mathematical answers are the same (`vextract add math`)
- verified_code: whether a program does what its tests ask (`vextract add sandbox`)
- components: several scores, weighted, as one
- scoring: a function over many samples: in order, in processes or coroutines, with a time limit for each
- manager: a reward manager of all that
- main_thread: functions that need the main thread, since they limit their time by signals or forks
- alarm: in training, where the reward rises and something else says that the model does not get better
- samples: what the model wrote and what each part of it was worth, as a file and as a table
"""
