# vextract:template
"""What rewards are made of. Hooks in `custom/` use these modules; none of them needs anything else of this package.

- scoring: a function over many samples
- manager: a reward manager of such a function
- others, on request: text and components (`vextract add reward_rules`), verified_math (`math`), verified_code
  (`sandbox`), scoring_aside (`reward_processes`), alarm and samples (`reward_logs`)
"""
