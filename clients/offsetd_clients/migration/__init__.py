"""Moving offsets here from another store: plan, differences, run, verify, and back.

Steps are separate, and each may be killed and started again: what is done is in a journal beside
the plan. `docs/guides/migration-off-zookeeper.md` has them one by one.
"""
