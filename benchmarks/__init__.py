"""Benchmarks: what a broker costs, measured from outside, with any Kafka broker as the subject.

    python -m benchmarks all                                  the floor and a fresh Ottla, side by side
    python -m benchmarks all --kafka --only "1 KB" latency    with a reference Kafka, and only some cases
    python -m benchmarks all --targets ottla --beside DIR     with another checkout, to see what a change costs
    python -m benchmarks replication --kafka                  three brokers, with a Kafka of three nodes by turns
    python -m benchmarks produce --bootstrap HOST:PORT        one program against a broker that runs already

The programs are `produce`, `consume` and `throughput` (both), `small` (requests of one record), `latency`, `memory`,
`compaction`, `start`, and `floor`, which is the server to compare with. `--help` after any of them tells the rest.

A machine's speed and noise are not ours to choose, so wall time says little. What is compared is the CPU time of the
broker's process, against the `floor`: the least work that any broker must do in this language (see `floor.py`),
driven by the same client in the same run. System time still swings with the page cache and with what else runs, which
is why repetitions take turns and a median comes with its range. Nothing here asserts that a figure is good.
"""
