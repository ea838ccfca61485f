"""What brokers ask the controller for, by gRPC: types, their messages, and the client."""
