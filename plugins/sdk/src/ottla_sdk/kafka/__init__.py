"""What every part of Ottla that drives librdkafka needs: its settings out of those of Java's clients, and guards.

`client_settings.py` has the rules that all have in common, `translations.py` what becomes of single settings,
`hung_consumers.py` what is done about consumers that hang, `coordinator_requests.py` how groups' coordinators are
asked, and `broker_probe.py` whether there is a broker at all. Nothing here imports a Kafka client.
"""
