"""What REST APIs of services have in common: sockets, the guard around requests, errors, forwarding."""
