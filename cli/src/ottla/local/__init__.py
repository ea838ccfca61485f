"""The local cluster launcher behind `ottla up`, `ottla status` and `ottla down`.

`plan` (pure) decides which processes run with which settings; `supervisor` starts, watches, restarts and stops
them; `cluster_directory` keeps their data, logs and the state file that the other commands read.
"""
