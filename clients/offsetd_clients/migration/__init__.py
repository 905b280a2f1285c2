"""Migrations of offsets from another store to offsetd: plan, diff, run, verify, and back.

The steps are separate. Each may be killed and started again: a journal next to the plan records the
completed steps. `docs/guides/migration-off-zookeeper.md` describes them one by one.
"""
