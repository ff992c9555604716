"""The workloads by name."""

from bench.harness import Workload
from bench.workloads import exchange, freezing, indexes, rows, scans, tpch

WORKLOADS: dict[str, Workload] = {
    "tpch": tpch.workload,
    "scans": scans.workload,
    "rows": rows.workload,
    "exchange": exchange.workload,
    "freezing": freezing.workload,
    "indexes": indexes.workload,
}

# Those of which users see tables: the others decide between ways to build it.
OF_USERS = ("tpch", "scans", "rows", "exchange")
