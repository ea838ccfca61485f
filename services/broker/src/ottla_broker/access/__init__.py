"""Checks of clients' rights that stand before handlers: a request is sifted, and only what is left is handled."""
