"""Parquet files of a run's or a sweep's tables (`experiments.api`, docs/python.md)."""

from pathlib import Path

import pyarrow.parquet as pq

from experiments.api import load_run


def write(run: Path, target: Path) -> str:
    """Writes `<table>.parquet` for each table into a new folder, in batches. Returns what was written."""
    target.mkdir()
    tables = load_run(run).tables
    rows = 0
    for name, table in tables.items():
        with pq.ParquetWriter(target / f"{name}.parquet", table.schema) as file:
            for batch in table.batches():
                file.write_batch(batch)
                rows += batch.num_rows
    return f"{rows:,} rows in {len(tables)} tables"
