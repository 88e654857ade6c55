"""What a run has of its own code, among the hooks of its project.

`recipient` is the project; each of the other modules copies one kind of thing into it: `named_files` what the config
names by a file, `registered` and `estimators` what is registered or called by a trainer, `managers` (with
`manager_classes` and `manager_hooks`), `scorers` and `trl_rewards` what scores; `unregistered`
puts aside what nobody has. `everything` does it all, in order.
"""
