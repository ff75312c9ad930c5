"""Our tables as JSON lines, a file for each: what a backup of MySQL or MariaDB holds."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from regsvc.cli.transfer.tables import CHUNK, Row, Rows, Table, TransferProblem, list_tables


class FileRows(Rows):
    """Reads what `write_tables` wrote."""

    def __init__(self, folder: Path, rows: Mapping[str, int], next_numbers: Mapping[str, int]) -> None:
        """`rows` and `next_numbers` by table, as the backup's list tells."""
        self._folder = folder
        self._rows = rows
        self._next_numbers = next_numbers

    def count(self, table: Table) -> int:
        return self._rows.get(table.name, 0)

    def next_number(self, table: Table) -> int:
        return self._next_numbers.get(table.name, 1)

    def chunks(self, table: Table) -> Iterator[list[Row]]:
        path = self._folder / f"{table.name}.jsonl"
        try:
            with path.open(encoding="utf-8") as file:
                if json.loads(file.readline()) != list(table.columns):
                    raise TransferProblem(f"{path} has other columns than {table.name}.")
                chunk: list[Row] = []
                for line in file:
                    chunk.append(tuple(json.loads(line)))
                    if len(chunk) == CHUNK:
                        yield chunk
                        chunk = []
                if chunk:
                    yield chunk
        except (OSError, ValueError) as error:
            raise TransferProblem(f"{path} cannot be read: {error}.") from error


def write_tables(rows: Rows, folder: Path, on_rows: Callable[[int], None]) -> None:
    """A file for each table: a line with the columns' names, then a line for each row."""
    folder.mkdir(mode=0o700)
    for table in list_tables():
        with (folder / f"{table.name}.jsonl").open("w", encoding="utf-8") as file:
            file.write(f"{json.dumps(table.columns)}\n")
            for chunk in rows.chunks(table):
                file.writelines(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in chunk)
                on_rows(len(chunk))
