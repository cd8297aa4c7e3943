"""The landing table: each poll a Parquet file that appears whole, or not at all."""

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.history.names import file_of
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.parquet import writer
from counterpoise.pipeline.tables.rows_codec import rows_to_arrow, write_reports


def land(store: Store, rows: ReportRows) -> str:
    """Write one poll's rows; raises `FileExistsError` when that poll is already there."""
    poll_id = int(rows["poll_id"][0])
    name = file_of("reports", poll_id)
    if store.exists(name):
        raise FileExistsError(f"poll {poll_id} has already been landed in {store.where(name)}")
    table = rows_to_arrow(rows)
    with (
        store.writing(name) as file,
        writer(file, table.schema) as made,
    ):
        write_reports(made, table)
    return name
