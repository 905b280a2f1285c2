"""The log cleaner: keeps the last value of every key, by the rules of Kafka's `LogCleaner`.

A round on one log: an offset map is built over the dirty range (`offset_map`). Each group of
segments is filtered by it (`segment_filter`, `cleaned_transactions`). The result replaces the
group.
"""
