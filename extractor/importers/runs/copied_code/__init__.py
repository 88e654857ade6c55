"""The code of a run's owner, copied among the hooks of the run's project.

`take_over.copy_user_code` does it all: `named` copies what the config names by a file, `managers`, `scorers`,
`easyr1` and `trl` what scores responses, `registered` estimators and losses; `own_verl` reports what stays behind of a
changed copy of verl. They stand on `copying`, which copies one file with what it imports into a `target` project.
"""
