"""What Ottla's services share: wire formats, cluster state, RPC, observation and configuration.

Nothing here imports a service. Modules named ``model``, ``record_batch`` and the like are pure: they know no
sockets, files or clocks.
"""
