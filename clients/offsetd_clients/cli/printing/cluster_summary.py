"""The state of a cluster: its nodes, its log partitions, and the replication of its log."""

from collections.abc import Iterator, Sequence

from offsetd_clients.cli.printing.terminal import Row, Terminal
from offsetd_clients.cluster_values import Cluster, ClusterPartition, LogPartitionState
from offsetd_clients.plurals import counted

NODE_COLUMNS = ("node", "address", "state", "partitions", "groups", "offsets", "copy_lag")
NODE_DROPPABLE = ("offsets", "groups", "address")
PARTITION_COLUMNS = ("partition", "node", "address", "state", "epoch", "copy_lag", "problem")
PARTITION_DROPPABLE = ("address",)


def report_cluster(
    cluster: Cluster, terminal: Terminal, *, named: Sequence[int], all_partitions: bool
) -> list[str]:
    """Prints a cluster. Returns the names of what is in trouble.

    A terminal gets the nodes, and the log partitions in trouble or asked for. A pipe, and the
    formats of -o, get the log partitions.
    """
    terminal.note("\n".join(cluster_lines(cluster)))
    for problem in cluster.problems:
        terminal.note(problem)
    chosen = [each for each in cluster.partitions if not named or each.log_partition in named]
    troubled = [each for each in chosen if _problem(each) is not None]
    if terminal.is_drawing and not named:
        terminal.rows(NODE_COLUMNS, _node_rows(cluster), droppable=NODE_DROPPABLE)
        chosen = chosen if all_partitions else troubled
    if chosen or not terminal.is_drawing:
        addresses = {node.node_id: node.address for node in cluster.nodes}
        rows = (_partition_row(each, addresses) for each in chosen)
        terminal.rows(PARTITION_COLUMNS, rows, droppable=PARTITION_DROPPABLE)
    return [
        *(["cluster"] if cluster.problems else []),
        *(f"node {node.node_id}" for node in cluster.nodes if node.server is None),
        *(f"partition {each.log_partition}" for each in troubled),
    ]


def cluster_lines(cluster: Cluster) -> Iterator[str]:
    """The cluster, and what an acknowledged commit survives."""
    yield (
        f"cluster {cluster.cluster_id}: {counted(len(cluster.nodes), 'node')},"
        f" {counted(len(cluster.partitions), 'log partition')}"
    )
    if cluster.replication is None:
        return
    replication = cluster.replication
    losses = max(replication.min_insync_replicas - 1, 0)
    yield (
        f"topic {replication.topic}: replication factor {replication.replication_factor},"
        f" min.insync.replicas {replication.min_insync_replicas}:"
        f" a commit survives the loss of {counted(losses, 'broker')}"
    )


def _node_rows(cluster: Cluster) -> Iterator[Row]:
    for node in cluster.nodes:
        known = None if node.server is None or node.server.counts_hidden else node.server
        yield {
            "node": node.node_id,
            "address": node.address,
            "state": "no answer" if node.server is None else node.server.state,
            "partitions": len(node.log_partitions),
            "groups": None if known is None else known.group_count,
            "offsets": None if known is None else known.offset_count,
            "copy_lag": node.copy_lag,
        }


def _partition_row(partition: ClusterPartition, addresses: dict[str, str]) -> Row:
    return {
        "partition": partition.log_partition,
        "node": partition.node_id or None,
        "address": addresses.get(partition.node_id),
        "state": partition.state,
        "epoch": partition.epoch,
        "copy_lag": partition.copy_lag,
        "problem": _problem(partition),
    }


def _problem(partition: ClusterPartition) -> str | None:
    if not partition.node_id:
        return "no node serves it"
    return {
        LogPartitionState.SERVING: None,
        LogPartitionState.LOADING: "its node is loading it",
        LogPartitionState.FAILED: "its log is damaged",
        LogPartitionState.UNKNOWN: "its node did not answer for it",
    }[partition.state]
