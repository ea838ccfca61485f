"""What every part of Ottla that drives librdkafka needs: its settings out of those of Java's clients, and a guard.

`client_settings.py` has the rules that all have in common, `translations.py` what becomes of single settings, and
`hung_consumers.py` what is done about consumers that hang. Nothing here imports a Kafka client.
"""
