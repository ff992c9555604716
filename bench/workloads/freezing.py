"""From hot to frozen: the shapes of the figures 12 to 15 of *Mainlining Databases*, and what freezing costs writers.

Each trial is one pass of the transformation over a table whose blocks were all written since the last one, with a share of
its slots empty:

- gather, dictionary: `PRAGMA freeze` with strings as they are, and as a dictionary (the paper's hybrid algorithms);
- snapshot: CREATE TABLE AS SELECT, which copies what a transaction sees into new Arrow memory;
- in place: one transaction that writes every value where it is.

Blocks of which a tenth or less is empty keep their gaps (the paper compacts them, too), so there is nothing to move.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from mmap import mmap

import firndb
import numpy as np
import pyarrow as pa

from bench import tpch
from bench.harness import Measurement, best_of
from bench.workloads import peers

BLOCKS = 64
BLOCK_ROWS = 32_768
ROWS = BLOCKS * BLOCK_ROWS
EMPTY = (0, 1, 5, 20, 40, 60, 80)
GROUPS = (1, 2, 4, 8, 16, 32, 64)
HOT = (0, 20, 40, 60, 80, 100)
RUNS = 7
# Scatters numbers over 32 bits: which slots are empty.
SCATTERED = "({} * 2654435761 % 4294967296) % 1000 < {}"


def texts(seed: int) -> pa.Array:
    """Strings of 12 to 24 bytes that begin with their row's number."""
    random = np.random.default_rng(seed)
    lengths = random.integers(5, 18, ROWS)
    letters = "".join(chr(97 + letter) for letter in random.integers(0, 26, 4096))
    starts = random.integers(0, 4096 - 18, ROWS)
    rows = zip(starts.tolist(), lengths.tolist(), strict=True)
    return pa.array([f"{row:07d}{letters[start : start + length]}" for row, (start, length) in enumerate(rows)])


class Layout:
    """Two columns, the number of a row in the first."""

    def __init__(self, name: str, columns: dict[str, pa.Array], number: str) -> None:
        self.name = name
        self.frame = pa.table(columns)
        self.number = number
        self.columns = [(column, "VARCHAR" if pa.types.is_string(array.type) else "BIGINT") for column, array in columns.items()]

    def table(self, connection: firndb.Connection, name: str, blocks: int, empty: int, options: str = "") -> None:
        """A table of this layout: full blocks, so many slots in a hundred made empty, and then a row of each block written."""
        columns = ", ".join(f"{column} {kind}" for column, kind in self.columns)
        connection.execute(f"CREATE TABLE {name} ({columns}) WITH (freeze = off{options})")
        connection.append(name, self.frame.slice(0, blocks * BLOCK_ROWS))
        connection.execute(f"DELETE FROM {name} WHERE {SCATTERED.format(self.number, 10 * empty)}")
        itself = ", ".join(f"{column} = {column}" for column, _ in self.columns)
        # One of a few rows of each block is there for certain; written columns thaw as a whole.
        connection.execute(f"UPDATE {name} SET {itself} WHERE {self.number} % {BLOCK_ROWS} < 200")
        assert connection.sql(f"SELECT count(*) FROM firndb_blocks('{name}') WHERE state = 'frozen'").fetchone() == (0,)


def layouts() -> list[Layout]:
    """As in the paper: half of the columns of variable length, none, all."""
    numbers = pa.array(np.arange(ROWS, dtype=np.int64))
    first, second = texts(1), texts(2)
    return [
        Layout("50% variable length", {"a": numbers, "s": first}, "a"),
        Layout("fixed length", {"a": numbers, "b": numbers}, "a"),
        Layout("variable length", {"s": first, "u": second}, "CAST(substr(s, 1, 7) AS BIGINT)"),
    ]


def counters(connection: firndb.Connection, name: str) -> dict[str, int]:
    """What was counted about a table."""
    columns = ("rows_moved", "blocks_emptied", "compacting_us", "waiting_us", "gathering_us", "sketching_us")
    row = connection.sql(f"SELECT {', '.join(columns)} FROM firndb_tables() WHERE table_name = '{name}'").fetchone()
    return dict(zip(columns, row, strict=True))


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes, once."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def transformation(connection: firndb.Connection, layout: Layout) -> Iterator[Measurement]:
    """Figure 12: blocks a second, and the phases of gathering; figure 13: rows that move."""
    figure = f"12 {layout.name}"
    itself = ", ".join(f"{column} = {column}" for column, _ in layout.columns)
    for empty in EMPTY:
        case = f"{layout.name}, {empty} % empty"
        ways = {
            "gather": ("", "PRAGMA freeze('t')"),
            "dictionary": (", strings = 'dictionary'", "PRAGMA freeze('t')"),
            "snapshot": ("", "CREATE TABLE copied AS SELECT * FROM t"),
            "in place": ("", f"UPDATE t SET {itself}"),
        }
        for way, (options, statement) in ways.items():
            if way == "dictionary" and layout.name == "fixed length":
                continue
            seconds, phases = float("inf"), {}
            for _ in range(2):
                layout.table(connection, "t", BLOCKS, empty, options)
                taken = timed(lambda statement=statement: connection.execute(statement))
                if taken < seconds:
                    seconds, phases = taken, counters(connection, "t")
                connection.execute("DROP TABLE t")
                connection.execute("DROP TABLE IF EXISTS copied")
            yield Measurement(case, way, BLOCKS / seconds, "blocks/s", figure, empty)
            if way == "gather" and layout.name == "50% variable length":
                for phase in ("compacting", "waiting", "gathering", "sketching"):
                    value = phases[f"{phase}_us"] / 1e6
                    if phase == "gathering":
                        value -= phases["sketching_us"] / 1e6
                    yield Measurement(case, phase, value, "s", "12 phases", empty)
                live = ROWS - removed(ROWS, empty)
                yield Measurement(case, "snapshot", live, "rows", "13 rows moved", empty)
                yield Measurement(case, "FirnDB moved", phases["rows_moved"], "rows", "13 rows moved", empty)
                yield Measurement(case, "the paper's rule", by_the_rule(empty), "rows", "13 rows moved", empty)


def empties(rows: int, empty: int) -> np.ndarray:
    """Which slots are empty."""
    return (np.arange(rows, dtype=np.int64) * 2654435761 % 4294967296) % 1000 < 10 * empty


def removed(rows: int, empty: int) -> int:
    """The number of empty slots."""
    return int(empties(rows, empty).sum())


def by_the_rule(empty: int) -> int:
    """The rows that the paper's approximation moves so that as few blocks as possible hold them: at most a block above the
    optimum. None where gaps stay.
    """
    if empty <= 10:
        return 0
    is_live = ~empties(ROWS, empty).reshape(BLOCKS, BLOCK_ROWS)
    full, rest = divmod(int(is_live.sum()), BLOCK_ROWS)
    live = is_live.sum(axis=1)
    fullest = np.argsort(-live, kind="stable")
    gaps = int((BLOCK_ROWS - live[fullest[:full]]).sum())
    front = max((int(is_live[block, :rest].sum()) for block in fullest[full:]), default=0)
    return gaps + rest - front


def group_sizes(connection: firndb.Connection, layout: Layout) -> Iterator[Measurement]:
    """Figure 14: what compacting frees, and how much a transaction writes, by the number of blocks that it takes together.

    A table of so many blocks is one group.
    """
    for empty in (20, 40, 60, 80):
        for size in GROUPS:
            freed = moved = 0
            tables = BLOCKS // size
            sampled = min(tables, 4)
            for number in range(sampled):
                layout.table(connection, f"g{number}", size, empty)
                connection.execute(f"PRAGMA freeze('g{number}')")
                counted = counters(connection, f"g{number}")
                freed += counted["blocks_emptied"]
                moved += counted["rows_moved"]
                connection.execute(f"DROP TABLE g{number}")
            case = f"{empty} % empty, groups of {size}"
            share = f"{empty} % empty"
            yield Measurement(case, share, freed * tables / sampled, "blocks", "14 blocks freed of 64", size)
            yield Measurement(case, share, moved / sampled, "rows", "14 rows a transaction writes", size)


def export() -> Iterator[Measurement]:
    """Figure 15: lineitem SF1 to Arrow by the share of blocks that are hot."""
    lineitem = tpch.table("lineitem", 1)
    names = lineitem.column_names
    numbered = lineitem.append_column("n", pa.array(np.arange(lineitem.num_rows, dtype=np.int64)))
    firn, duck = firndb.connect(config={"threads": peers.THREADS}), peers.duck({"lineitem": numbered})
    firn.append("lineitem", numbered, create=True)
    firn.execute("ALTER TABLE lineitem SET (freeze = off)")
    rows = firn.sql("SELECT max(rows) FROM firndb_blocks('lineitem')").fetchone()[0]
    itself = ", ".join(f"{name} = {name}" for name in [*names, "n"])
    copied = [np.frombuffer(buffer, dtype=np.uint8) for buffer in buffers(firn.table("lineitem").arrow(native=True))]

    def memcpy() -> None:
        for one in copied:
            np.copyto(np.frombuffer(mmap(-1, one.nbytes), dtype=np.uint8), one)

    best = {
        "DuckDB": best_of(2, lambda: duck.table("lineitem").to_arrow_table()),
        "memcpy": best_of(3, memcpy),
    }
    copied.clear()
    gigabytes = numbered.nbytes / 1e9
    for hot in HOT:
        chosen = SCATTERED.format(f"(n // {rows})", 10 * hot)
        firn.execute(f"UPDATE lineitem SET {itself} WHERE n % {rows} = 0 AND {chosen}")
        case = f"lineitem to Arrow, {hot} % hot"
        ways = {
            "FirnDB, default types": best_of(3, lambda: firn.table("lineitem").arrow()),
            "FirnDB, native types": best_of(3, lambda: firn.table("lineitem").arrow(native=True)),
            **best,
        }
        for way, seconds in ways.items():
            yield Measurement(case, way, gigabytes / seconds, "GB/s", "15 export", hot)
    firn.close()
    duck.close()


def buffers(table: pa.Table) -> Iterator[pa.Buffer]:
    """The memory that a table shows, each piece once."""
    seen = set()
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None and buffer.size and buffer.address not in seen:
                    seen.add(buffer.address)
                    yield buffer


def updates(freeze: bool, clients: int, seconds: float) -> float:
    """Transactions a second of clients that update and insert single rows, nine of ten among the newest tenth."""
    connection = firndb.connect(config={"threads": peers.THREADS})
    option = "on" if freeze else "off"
    connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v BIGINT, s VARCHAR) WITH (freeze = {option})")
    count = 400_000
    ids = np.arange(count, dtype=np.int32)
    frame = pa.table({"id": ids, "v": ids.astype(np.int64), "s": [f"the text of row {i}" for i in range(count)]})
    connection.append("t", frame)
    done = [0] * clients
    end = time.perf_counter() + seconds

    def work(client: int) -> None:
        session = connection.cursor()
        random = np.random.default_rng(client)
        top = count
        while time.perf_counter() < end:
            recent = random.random(50) < 0.9
            low = np.where(recent, count - count // 10, 0)
            chosen = low + (random.random(50) * (count - low)).astype(np.int64)
            # Clients keep to rows of their own: two that meet would measure conflicts.
            chosen -= (chosen - client) % clients
            for row in chosen.tolist():
                session.execute("UPDATE t SET v = v + 1 WHERE id = ?", [max(row, client)])
            session.execute("INSERT INTO t VALUES (?, 0, 'a new row')", [top + client])
            top += clients
            done[client] += 51

    threads = [threading.Thread(target=work, args=(client,)) for client in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - begun
    connection.close()
    return sum(done) / elapsed


def interference() -> Iterator[Measurement]:
    """Writers with freezing on and off, in pairs."""
    for clients in (1, 2):
        pairs = []
        for run in range(RUNS):
            order = (True, False) if run % 2 else (False, True)
            rates = {freeze: updates(freeze, clients, 2.0) for freeze in order}
            pairs.append(rates)
            yield Measurement(f"{clients} clients, run {run}", "freezing on", rates[True], "1/s", "writers", run)
            yield Measurement(f"{clients} clients, run {run}", "freezing off", rates[False], "1/s", "writers", run)
        ratio = statistics.median(pair[True] / pair[False] for pair in pairs)
        yield Measurement(f"{clients} clients, median of {RUNS} pairs", "on / off", ratio, "ratio")


def workload() -> Iterator[Measurement]:
    """Freezing: transformation, compaction, export by the share of hot blocks, interference with writers."""
    connection = firndb.connect(config={"threads": peers.THREADS})
    shapes = layouts()
    for layout in shapes:
        yield from transformation(connection, layout)
    yield from group_sizes(connection, shapes[0])
    connection.close()
    yield from export()
    yield from interference()
