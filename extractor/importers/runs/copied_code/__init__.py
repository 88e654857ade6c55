"""Copy a run's own code into its project's hooks.

`named` copies what the config names by a file, `managers` and `easyr1` what scores responses; `managers` also reports
what stays behind of a changed copy of verl. They stand on `copying`, which copies one file with what it imports into a
`target` project.
"""
