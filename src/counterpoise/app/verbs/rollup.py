"""``counterpoise rollup``: update a history's gold tables (summaries of days) with Spark."""

import argparse
import sys

from counterpoise.app.errors import UserError
from counterpoise.app.spark import spark_conf, spark_session, written
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.gold.rollup import SETTINGS, days_to_roll_up, roll_up
from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import open_location


def run(args: argparse.Namespace) -> int:
    """Run ``rollup``: update the gold tables for the days whose reports have changed."""
    spark_conf(args)
    location = open_location(args.history)
    days = days_to_roll_up(location, again=args.again)
    if not days.sources:
        raise UserError(
            f"{location.address} has no reports: `counterpoise watch --history` or "
            "`counterpoise balance --history` records them"
        )
    if not days.old:
        sys.stdout.write("The gold tables are up to date.\n")
        return 0
    with spark_session(args, SETTINGS) as spark:
        try:
            for table, day, rows in roll_up(spark, location, days, wall_clock_ms()):
                sys.stdout.write(f"{day} {table:22} {rows:12,} rows\n")
                sys.stdout.flush()
        except HistoryFaultError:
            raise
        except Exception as error:
            raise UserError(f"{sentence_of(str(error))} (details: {written(error)})") from None
    return 0
