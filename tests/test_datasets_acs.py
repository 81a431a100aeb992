"""The census download, against a server of our own on 127.0.0.1."""

import csv
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import acs_files
import pandas as pd
import pytest
from acs import SOURCE_COLUMNS, fetch_acs

from tabsynth import InputError
from tabsynth.encoding import TableEncoder

PERSONS = """RT,SERIALNO,SPORDER,PUMA,ST,AGEP,SEX,ESR,RAC1P,JWMNP,FOD1P
P,2019HU1,01,00301,24,41,1,1,1,30,2400
P,2019HU1,02,00301,24,9,2,,9,,
P,2019HU3,01,01004,24,99,2,6,2,,1100
P,2019GQ1,01,01004,24,20,1,3,6,7,
"""
HOUSEHOLDS = """RT,SERIALNO,PUMA,ST,NP,HHT,HINCP,HUPAC,WIF,TEN
H,2019HU1,00301,24,02,1,81000,2,1,1
H,2019HU2,00301,24,00,,,,,
H,2019HU3,01004,24,01,6,1200000,4,,3
H,2019GQ1,01004,24,01,,,,,
"""


def zipped(text: str | bytes, member: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ACS2019_PUMS_README.pdf", b"%PDF")
        archive.writestr(member, text)
    return file.getvalue()


PATH = "/2019/1-Year/csv_{}md.zip"


class Server:
    """A stand-in for the Census Bureau's file server; ``files`` by path, ``asked`` in order."""

    def __init__(self) -> None:
        self.files = {
            PATH.format("p"): zipped(PERSONS, "psam_p24.csv"),
            PATH.format("h"): zipped(HOUSEHOLDS, "psam_h24.csv"),
        }
        self.asked: list[str] = []
        self.length: int | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                body = outer.files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(outer.length or len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


def refused(part: str, **arguments: Any) -> None:
    with pytest.raises(InputError) as caught:
        fetch_acs(**arguments)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_the_ten_columns_of_the_source_document(server: Server) -> None:
    table, schema = fetch_acs(base_url=server.url)
    assert tuple(table.columns) == schema.names == SOURCE_COLUMNS
    assert table.dtypes.astype(str).to_dict() == {c.name: c.dtype for c in schema.columns}
    assert len(table) == 4  # the vacant household is no person
    assert table["PUMA"].tolist() == ["00301", "00301", "01004", "01004"]
    assert schema["PUMA"].categories == ("00301", "01004")
    assert table["NP"].tolist() == [2, 2, 1, 1]
    assert table["HINCP"].tolist()[:3] == [81_000, 81_000, 1_200_000]
    quarters = table.iloc[3]
    assert quarters[["HHT", "HINCP", "HUPAC", "WIF"]].isna().all() and quarters["AGEP"] == 20
    assert table["ESR"].isna().tolist() == [False, True, False, False]
    assert not schema.drafted and all(column.source for column in schema.columns)
    assert "public" in str(schema["PUMA"].source)
    index = TableEncoder(schema).to_index(table)
    hincp = schema["HINCP"]
    labels = [hincp.label(code) for code in index[:, schema.names.index("HINCP")]]
    assert labels == ["80000–89999", "80000–89999", "490000–499999", "null"]
    assert hincp.label(0) == "-60000–-50001"


def test_other_columns_come_from_the_public_file(server: Server) -> None:
    names = ("TEN", "JWMNP", "SEX", "FOD1P", "ST")
    table, schema = fetch_acs("md", columns=names, base_url=server.url)
    assert schema.names == names and not schema.drafted
    assert schema["TEN"].source == schema["JWMNP"].source == "ACS PUMS file, public"
    assert table["TEN"].tolist()[:3] == [1, 1, 3] and table["TEN"].isna()[3]
    assert table["JWMNP"].isna().tolist() == [False, True, True, False]


def test_only_what_is_needed_is_fetched_and_the_cache_is_kept(
    server: Server, tmp_path: Path
) -> None:
    table, _ = fetch_acs(columns=["PUMA", "SEX"], base_url=server.url, cache=tmp_path)
    assert server.asked == [PATH.format("p")]  # PUMA is in both files: the person's is taken
    kept = tmp_path / "acs-2019-1-Year-csv_pMD.zip"
    assert list(tmp_path.iterdir()) == [kept]
    server.files.clear()
    second, _ = fetch_acs(columns=["PUMA", "SEX"], base_url=server.url, cache=tmp_path)
    pd.testing.assert_frame_equal(second, table)
    assert len(server.asked) == 1
    kept.write_bytes(b"PK half of it")
    refused("is not a whole zip file", columns=["SEX"], base_url=server.url, cache=tmp_path)
    refused("Cannot write", base_url=server.url, cache=tmp_path / "none", columns=["SEX"])


def test_older_files_have_another_name(server: Server) -> None:
    server.files["/2012/5-Year/csv_pmd.zip"] = zipped(PERSONS, "ss12pmd.csv")
    table, _ = fetch_acs("MD", 2012, ["AGEP"], period="5-Year", base_url=server.url)
    assert table["AGEP"].tolist() == [41, 9, 99, 20]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"state": "ZZ"}, "Expected state to be one of AL"),
        ({"state": 24}, "got '24'"),
        ({"year": 1999}, "year to be a whole number >= 2007"),
        ({"year": "2019"}, "year to be a whole number"),
        ({"period": "2-Year"}, "period to be one of 1-Year, 3-Year, 5-Year"),
        ({"columns": ()}, "columns to be a list"),
        ({"columns": "SEX"}, "columns to be a list"),
        ({"columns": ["SEX", "SEX"]}, "columns names 'SEX' twice"),
        ({"columns": ["SERIALNO"]}, "an identifier"),
        ({"columns": ["SEX", "NONE"]}, "no column 'NONE'"),
        ({"state": "VA"}, "csv_pva.zip: HTTP 404"),
        ({"year": 2031}, "check state, year and period"),
        ({"base_url": "file:///etc"}, "expected an http or https address"),
        ({"base_url": "http://127.0.0.1:9"}, "check the network"),
        ({"base_url": "http://127.0.0.1:bad"}, "Cannot fetch"),
    ],
)
def test_refusals_are_one_line(server: Server, arguments: dict[str, Any], part: str) -> None:
    refused(part, **{"base_url": server.url, **arguments})


def damaged(name: str) -> bytes:
    whole = zipped(PERSONS, "psam_p24.csv")
    if name == "page":
        return b"<html>Service unavailable</html>"
    if name == "cut":
        return whole[: len(whole) // 2]
    if name == "flipped":
        at = whole.index(b"psam_p24.csv") + 20
        return whole[:at] + bytes(255 - b for b in whole[at : at + 40]) + whole[at + 40 :]
    if name == "member":
        return zipped(PERSONS, "psam_p51.csv")
    if name == "binary":
        return zipped(b"RT,SERIALNO,AGEP\nP,1,\xff\xfe\n", "psam_p24.csv")
    return zipped("" if name == "empty" else PERSONS.splitlines()[0] + "\n", "psam_p24.csv")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("page", "is not a whole zip file"),
        ("cut", "is not a whole zip file"),
        ("flipped", "is not a whole zip file"),
        ("member", "holds no file named like"),
        ("binary", "is not a CSV table"),
        ("empty", "is not a CSV table (No columns"),
        ("headed", "has no rows"),
    ],
)
def test_damaged_downloads_are_refused(server: Server, name: str, part: str) -> None:
    server.files[PATH.format("p")] = damaged(name)
    refused(part, columns=["AGEP"], base_url=server.url)


def test_a_download_that_ends_early_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.length = 100_000
    refused("of 100000 bytes; try again", base_url=server.url, cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_sizes_are_limited(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="above the limit of 10"):
        acs_files.download(server.url + PATH.format("p"), tmp_path / "z.zip", limit=10)
    assert not list(tmp_path.iterdir())
    bomb = tmp_path / "bomb.zip"
    bomb.write_bytes(zipped(b"0" * 10_000_000, "psam_p24.csv"))
    assert bomb.stat().st_size < 20_000
    with pytest.raises(InputError, match="unpacks to 10000000 bytes, above the limit"):
        acs_files.ZippedCsv(bomb, r"psam_p24\.csv", limit=1_000_000)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("H,2019HU3", "H,2019HU9"), "lacks the household of 1 persons"),
        (("H,2019HU2", "H,2019HU1"), "lists a SERIALNO twice"),
        (("H,2019HU2", "H,"), "lacks a SERIALNO"),
        (("24,02,1", "24,02,8"), "Column 'HHT': 8 is outside its declared categories"),
        (("24,02,1", "24,02,x"), "Column 'HHT': 'x' is not a whole number"),
        (("24,02,1", "24,,1"), "Column 'NP' has a null"),
    ],
)
def test_households_that_do_not_fit_are_refused(
    server: Server, change: tuple[str, str], part: str
) -> None:
    text = HOUSEHOLDS.replace(*change)
    assert text != HOUSEHOLDS and all(len(r) == 10 for r in csv.reader(text.splitlines()))
    server.files[PATH.format("h")] = zipped(text, "psam_h24.csv")
    refused(part, base_url=server.url)
