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
