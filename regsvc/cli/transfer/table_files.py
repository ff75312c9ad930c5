"""Our tables as JSON Lines, one file per table: the format of backups of MySQL and MariaDB."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from regsvc.cli.transfer.tables import CHUNK_ROWS, Row, Rows, TableSpec, TransferProblem, list_tables


class FileRows(Rows):
    """Rows from files written by `write_tables`."""

    def __init__(self, folder: Path, rows: Mapping[str, int], next_numbers: Mapping[str, int]) -> None:
        """`rows` (counts) and `next_numbers` by table, from the backup's manifest."""
        self._folder = folder
        self._rows = rows
        self._next_numbers = next_numbers

    def count(self, table: TableSpec) -> int:
        return self._rows.get(table.name, 0)

    def next_number(self, table: TableSpec) -> int:
        return self._next_numbers.get(table.name, 1)

    def chunks(self, table: TableSpec) -> Iterator[list[Row]]:
        path = self._folder / f"{table.name}.jsonl"
        try:
            with path.open(encoding="utf-8") as file:
                if json.loads(file.readline()) != list(table.columns):
                    raise TransferProblem(f"{path} has other columns than {table.name}.")
                chunk: list[Row] = []
                for line in file:
                    chunk.append(tuple(json.loads(line)))
                    if len(chunk) == CHUNK_ROWS:
                        yield chunk
                        chunk = []
                if chunk:
                    yield chunk
        except (OSError, ValueError) as error:
            raise TransferProblem(f"{path} cannot be read: {error}.") from error


def write_tables(rows: Rows, folder: Path, on_rows: Callable[[int], None]) -> None:
    """Write one file per table: a line with the column names, then a line for each row."""
    folder.mkdir(mode=0o700)
    for table in list_tables():
        with (folder / f"{table.name}.jsonl").open("w", encoding="utf-8") as file:
            file.write(f"{json.dumps(table.columns)}\n")
            for chunk in rows.chunks(table):
                file.writelines(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in chunk)
                on_rows(len(chunk))
