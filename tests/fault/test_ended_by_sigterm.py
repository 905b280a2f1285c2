"""What the Python client's guide says of processes that SIGTERM ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from offsetd_clients import OffsetClient, TopicPartition
from server_process import ServerProcess

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "python-client.md"
COMMITS = 2000
PROGRAM = """
import sys, time
from offsetd_clients import OffsetClient, TopicPartition

with OffsetClient(sys.argv[1]) as client:
    for offset in range({commits}):
        client.commit_soon("handed-in", {{TopicPartition("t", 0): offset}})
    print("handed in", flush=True)
    while True:
        time.sleep(0.01)
"""


def lines_of_the_guide() -> str:
    [lines] = re.findall(r"```text\n(import signal\n.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    return str(lines)


def test_the_lines_of_the_guide_make_sigterm_send_what_was_handed_in(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        program = lines_of_the_guide() + PROGRAM.format(commits=COMMITS)
        with subprocess.Popen(
            [sys.executable, "-c", program, server.address], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "handed in\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
        with OffsetClient(server.address) as client:
            assert client.fetch("handed-in")[TopicPartition("t", 0)].offset == COMMITS - 1
