"""The `ottla` command: a local cluster of real processes, and the tools of every day.

`main` is the entry point, `commands` holds one file per command group, `local` is the launcher behind
`ottla up`, `records` turns lines into records and back, `load` drives the benchmarks.
"""
