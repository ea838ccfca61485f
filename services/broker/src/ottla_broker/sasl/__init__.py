"""Authentication of clients by SASL (RFC 4422), as Kafka's brokers do it.

Mechanisms and the exchange of messages are state machines without I/O; what they need to know of others they ask for
with a value, and `listener_sasl.py` finds it.
"""
