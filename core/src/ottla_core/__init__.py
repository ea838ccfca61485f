"""What Ottla's services share: wire formats, cluster state, RPC, observation and configuration.

Nothing here imports a service. Modules named ``model``, ``record_batch`` and the like are pure: they know no
sockets, files or clocks.
"""

import os

# gRPC reads this when it is imported. Without it gRPC writes lines of its own into logs and between a command's
# output, of every connection that a server closes and of every fork; what matters of it comes as an error of a call,
# too. INFO brings them back.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
