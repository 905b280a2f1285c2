"""`offsetd cluster`: the subcommands and their options. Each imports its code when it is called.

`init` brings the folder of a single server into the topics of a cluster, `export` makes a folder of
them again. Both are for a time in which neither the server nor a node runs.
"""

from pathlib import Path
from typing import Annotated

import typer

from offsetd_coordinator.commands.log_commands import given_folder
from offsetd_coordinator.commands.terminal import Terminal

BrokersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Brokers of the Kafka cluster (cluster.bootstrap.servers).",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster-id", metavar="ID", help="The name of the cluster (cluster.id)."),
]
NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node-id",
        metavar="ID",
        help="The node whose settings and audit events they are (node.id).",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting; may be repeated.", metavar="NAME=VALUE"),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the group `cluster`."""
    group = typer.Typer(
        help="Moving a log into the topics of a cluster, and out again.", no_args_is_help=True
    )
    app.add_typer(group, name="cluster")
    group.callback()(_group)
    _register_init(group, terminal)
    _register_export(group, terminal)


def _group() -> None:
    """Moving a log into the topics of a cluster, and out again."""


def _register_init(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("init")
    def init(
        data_dir: Annotated[
            Path,
            typer.Option(
                "--from-data-dir",
                metavar="DIR",
                parser=given_folder,
                help="The folder of a stopped single server.",
            ),
        ],
        bootstrap_servers: BrokersOption = None,
        cluster_id: ClusterOption = None,
        node_id: NodeOption = None,
        assignments: SetOption = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Change nothing; show what would be brought in.")
        ] = False,
    ) -> None:
        """Bring the folder of a single server into the topics of a new cluster.

        The server is stopped, and the topics are missing or empty: they are made as the first node
        would make them. All records keep their offsets in the log, so revisions, epochs of leases,
        history and request ids stay as they are. The settings that were changed at run time, and
        the audit events, become those of the node --node-id. At the end everything is read back and
        compared; only then a node can use the topics. If the command is broken off, run it again:
        it continues. The folder is not changed, except that it is recovered as at a start.

        Examples:
            offsetd cluster init --from-data-dir old --bootstrap-servers b1:9092
            offsetd cluster init --from-data-dir old --set cluster.id=c --dry-run
        """
        from offsetd_coordinator.commands import cluster_moves  # noqa: PLC0415

        settings = cluster_moves.read_settings(
            terminal, bootstrap_servers, cluster_id, node_id, assignments or ()
        )
        cluster_moves.init(terminal, data_dir, settings, assignments or (), is_dry=dry_run)


def _register_export(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("export")
    def export(
        data_dir: Annotated[
            Path,
            typer.Option(
                "--data-dir", metavar="DIR", parser=given_folder, help="The folder to make."
            ),
        ],
        bootstrap_servers: BrokersOption = None,
        cluster_id: ClusterOption = None,
        node_id: NodeOption = None,
        assignments: SetOption = None,
    ) -> None:
        """Make a folder for a single server from the topics of a cluster.

        All nodes are stopped; the topics are not changed. `offsetd serve --data-dir DIR` then
        serves the folder: it goes on above all revisions that the nodes have given out. The
        settings that were changed at run time, and the audit events, are those of the node
        --node-id; it can be left out if only one node has some. At the end the folder is read back
        and compared.

        Examples:
            offsetd cluster export --data-dir new --bootstrap-servers b1:9092
        """
        from offsetd_coordinator.commands import cluster_moves  # noqa: PLC0415

        settings = cluster_moves.read_settings(
            terminal, bootstrap_servers, cluster_id, node_id, assignments or ()
        )
        cluster_moves.export(
            terminal, data_dir, settings, assignments or (), is_node_named=node_id is not None
        )
