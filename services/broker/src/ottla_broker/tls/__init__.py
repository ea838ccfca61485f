"""TLS on the listeners of clients: settings, key material, handshakes, channels, and who a certificate stands for."""
