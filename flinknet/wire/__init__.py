"""The wire format: messages, their codec and the handshake.

``SPEC.md`` is normative.
"""
