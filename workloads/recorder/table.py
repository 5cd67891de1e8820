"""Writes the launch rows as Parquet, with one fixed type per column."""

from pathlib import Path

TYPES = {
    "segment": "string", "index": "uint32", "kind": "string", "name": "string",
    "grid_x": "uint32", "grid_y": "uint32", "grid_z": "uint32",
    "block_x": "uint32", "block_y": "uint32", "block_z": "uint32",
    "regs": "uint32", "smem_static": "uint32", "smem_dynamic": "uint32", "stream": "uint32",
    "q00": "uint64", "q10": "uint64", "q25": "uint64", "q50": "uint64", "q75": "uint64",
    "q90": "uint64", "q100": "uint64",
    "gap_ns": "uint64", "host_ns": "uint64", "host_call_ns": "uint64",
    "dram_bytes": "uint64", "dram_source": "string", "sm_pct": "float32",
    "cluster": "uint32", "copy_bytes": "uint64",
}  # fmt: skip


def write_parquet(rows: list[dict], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in TYPES.items()])
    table = pa.Table.from_pylist([{name: row[name] for name in TYPES} for row in rows], schema)
    partial = path.with_name(path.name + ".partial")
    pq.write_table(table, partial, compression="zstd", compression_level=9)
    partial.replace(path)
