# vextract:template base/__package__/rewards/__init__.py
"""What rewards are made of. Hooks in `custom/` use these modules; none of them needs anything else of this package.

- text: rules: answers in a text, tags, lengths, repetition (`vextract add reward_rules`)
- verified_math: whether two mathematical answers are the same (`vextract add math`)
- verified_code: whether a program does what its tests ask (`vextract add sandbox`)
- components: several scores, weighted, as one (`vextract add reward_rules`)
- scoring: a function over many samples: in order, or as coroutines
- scoring_aside: the same in processes, with a time limit for each sample (`vextract add reward_processes`)
- manager: a reward manager of all that
- alarm, samples: warnings and files about what the model wrote (`vextract add reward_logs`)
"""
