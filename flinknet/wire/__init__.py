"""Bytes: the messages of the protocol, their codec and the handshake; ``SPEC.md`` is the law
here."""
