"""The copy of partitions: batches are fetched from the source and produced to the target as they are.

Pure rules: `source_batch.py` (what a fetch returned, batch by batch), `deliverable_batches.py` (which of it is
copied), `restamp.py`, `sparse_batch.py` and `legacy_formats.py` (what the target is sent), `usual_batches.py` (all of
that in one pass, for what most answers consist of), `takeover.py` (how far the target has come already),
`refusals.py` (what an error of the target means), `needs.py` (what has to be done then), `partition_copy.py` (one
partition as a state machine). Around them, with connections and a clock: `source_fetcher.py`, `target_producer.py`,
`copier.py`.
"""
