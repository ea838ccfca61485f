"""The transaction coordinator's rules: one shard of ``__transaction_state`` as a state machine. Pure.

`transaction.py` has what is known of one transactional id and how it changes, `transaction_state.py` the table of
states, `ending.py` what may end a transaction, `shard.py` what handles which request and timer. `records.py`,
`requests.py` and `effects.py` are what goes in and out.
"""
