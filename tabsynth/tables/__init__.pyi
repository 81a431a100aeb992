from tabsynth.tables.counter import RowCounter as RowCounter
from tabsynth.tables.files import read_sample as read_sample
from tabsynth.tables.files import read_table as read_table
from tabsynth.tables.files import write_table as write_table
from tabsynth.tables.parquet_counter import ParquetCounter as ParquetCounter
