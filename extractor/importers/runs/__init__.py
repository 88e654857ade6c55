"""Turn a verl run into a project with the same experiment.

`run_request` calls `run_reader` (a script or a config -> Run), `release_match` (Run -> ReleaseMatch) and `experiment`
(the project's options). `imported_project` then copies code (`copied_code/`), repairs settings and writes them.
"""
