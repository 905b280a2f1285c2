"""Protobuf messages to checked values, and values to messages."""
