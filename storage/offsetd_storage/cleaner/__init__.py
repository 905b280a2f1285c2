"""The log cleaner: of every key the last value stays, by the rules of Kafka's `LogCleaner`.

A round on one log: an offset map is built over the dirty range (`offset_map`), each group of
segments is filtered by it (`keep`, `transactions`), and what is left replaces the group.
"""
