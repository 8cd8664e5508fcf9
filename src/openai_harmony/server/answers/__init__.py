"""How answers leave the server: JSON, event streams, errors, and clients that go away."""
