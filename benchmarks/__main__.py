"""`python -m benchmarks [NAME…]`: the benchmarks, each a ratio within one run."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

BENCHMARKS = {
    "load": "load of a large log to SERVING, beside Kafka on the same files",
    "memory": "anonymous memory per stored offset",
    "clean": "a round of cleaning, beside Kafka's own cleaner on the same files",
    "soak": "keys overwritten at full speed while the log is cleaned: the disk, and p99",
    "expiry": "a million offsets that expire at once: commits' p99 beside it",
    "large_groups": "each call on groups of 200,000 and a million offsets, and commits beside it",
    "groups": "3,000 members that send heartbeats, commits beside them, and a large rebalance",
    "start": "an empty server, from exec to SERVING",
    "spark_tables": "tables of a large log in Spark, beside ready-made batches of the same rows",
    "spark_writes": "a million offsets of Parquet files, written to a local server by Spark",
    "spark_archive": "20 million records archived as Parquet: time, and memory of all processes",
    "migration": "100,000 znodes of a ZooKeeper: plan, run and verify",
    "commit_path": "durable commits beside a bare grpc.aio server",
    "acl": "decisions by 10,000 access rules for 1,000 principals",
    "security": "commits with mTLS and 10,000 access rules, beside plain ones",
    "backup": "commits beside backups of a large log",
    "quotas": "commits beside a caller that asks for ten times its quota",
    "web": "pages of `offsetd web` in front of a million groups, and commits beside open pages",
    "tracing": "commits at a server that traces a hundredth of the calls, and at one that does not",
    "cluster": "nodes on three Kafka brokers, beside Kafka's own groups on these brokers",
    "client": "a thousand coroutines that commit through one client, beside a raw stream",
}


def main() -> None:
    """Runs the named benchmarks, or all, and prints the results of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the logs (1.0)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")

    found = {}
    for name in options.names or BENCHMARKS:
        print(f"\n{name}: {BENCHMARKS[name]}")
        benchmark = importlib.import_module(f"benchmarks.{name}")
        found[name] = benchmark.run(rounds=options.rounds, scale=options.scale)
        for line, figure in found[name].items():
            print(f"  {line:<58} {figure}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
