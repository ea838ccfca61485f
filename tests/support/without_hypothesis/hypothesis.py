"""Stands before Hypothesis in the processes that tests start, so that they run as they do where Ottla is installed.

kio imports Hypothesis wherever it is there, to register strategies: a quarter of what the start of a service costs.
`tests/conftest.py` puts this folder on the PYTHONPATH of child processes; the tests' own process has the real one.
"""

raise ModuleNotFoundError("processes that tests start have no Hypothesis", name="hypothesis")
