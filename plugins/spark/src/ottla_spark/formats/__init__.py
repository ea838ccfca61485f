"""Formats of keys and values: from bytes to columns and back.

`format.py` says what there is and checks it; `decoding.py` and `encoding.py` put a frame together from what
`json_format.py`, `avro_format.py` and `plain_format.py` know of one part; `inference.py` finds a schema. What Avro's
types are in Spark and on the wire is in `avro_types.py`, pure, and what a Schema Registry says in `registry.py`.
"""
