"""Connections to Kafka brokers, for what librdkafka does not let us say ourselves.

`protocol.py` is the client's side of a connection without I/O: which version of an API to use, frames and correlation
ids, ApiVersions and SASL at the beginning. `async_connection.py` and `blocking_connection.py` put it on sockets.
`security.py` reads TLS and SASL out of settings under librdkafka's names, `tls.py` makes the context, and
`token_endpoint.py` gets tokens for OAUTHBEARER. What only TLS or a login needs is imported with the first of them.
"""
