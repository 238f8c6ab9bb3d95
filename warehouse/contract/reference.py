"""The tables of `reference/`: prices, and the files and rejected rows of all reference tables."""

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Table
from warehouse.contract.ops import count, day, flag, moment, ops_table, ordinal, text

FILE = text("file", "Name of the file when it was received.")
SHA256 = text("sha256", "SHA-256 of the file, which is its name in reference/kept/.")
LINE = count("line", "Line of the row in the file. Rows of Parquet files are counted from 1.")
RECEIVED_AT = moment("received_at", "When nightbook received the file, UTC.")
# Each row of a reference table ends with these columns.
PROVENANCE = (FILE, SHA256, LINE, RECEIVED_AT)

PRICES = Table(
    "prices",
    "One row for each price that people brought, including prices that a later file replaced. The "
    "macro prices_as_of selects the valid prices.",
    key=("sha256", "line"),
    schema="reference",
    columns=(
        text("asset_id", "The asset that has the price."),
        flag(
            "is_custom_asset",
            "Whether the organisation defined the asset itself. A price is only valid for assets "
            "with the same value.",
        ),
        text("quote", "Unit of the price, such as USD."),
        text("price_text", "Exact price of 1 unit of the asset, in plain digits."),
        text("as_of", "Date or time of the price, as in the file."),
        day(
            "as_of_date",
            "Business date of the price. NULL if the file states a time.",
            nullable=True,
        ),
        moment(
            "as_of_time",
            "Time of the price, UTC. NULL if the file states only a date.",
            nullable=True,
        ),
        text("source", "Source of the price. Empty if the file does not state it."),
        text("level", "Level in the fair value hierarchy: 1, 2, 3 or empty."),
        *PROVENANCE,
    ),
)

THRESHOLDS = Table(
    "thresholds",
    "One row for each limit that people set, including limits that a later file replaced. A breach "
    "is a finding of the newest book.",
    key=("sha256", "line"),
    schema="reference",
    columns=(
        text("scope", "asset, venue, portfolio, or the name of a label."),
        text(
            "name",
            "ID of the asset, venue or portfolio, or the value of the label. Empty if the limit is "
            "for each of them that has no limit with its name.",
        ),
        flag(
            "is_custom_asset",
            "Whether the organisation defined the asset itself. If the name is empty, true limits "
            "only such assets, and false all assets.",
        ),
        text(
            "measure",
            "quantity: the amount of the asset. value: its value in NIGHTBOOK_CURRENCY. share: its "
            "value in percent of the value of the whole book. move: the size of the change since "
            "the previous book in percent, up or down, of the quantity of an asset, otherwise of "
            "the value.",
        ),
        text("minimum", "Exact lower limit. NULL if there is none.", nullable=True),
        text("maximum", "Exact upper limit. NULL if there is none.", nullable=True),
        flag("is_alert", "Whether a finding is also an alert. In the file, the title is alert."),
        *PROVENANCE,
    ),
)
TRANSACTIONS = Table(
    "transactions",
    "One row for each transaction that people brought, including transactions that a later file "
    "replaced. The macro movement_between compares them with two books.",
    key=("sha256", "line"),
    schema="reference",
    columns=(
        moment("time", "When the transaction was booked at the venue, UTC."),
        text("portfolio", "ID or name of the portfolio, as in the file."),
        text("venue", "ID or name of the venue, as in the file."),
        text("account", "Name of the account."),
        text("asset_id", "The asset that was moved."),
        flag("is_custom_asset", "Whether the organisation defined the asset itself."),
        text("amount_text", "Exact amount in plain digits. Below zero if it left the account."),
        text("kind", "Kind in lower case. fee is a fee, and all other words are free."),
        text("reference", "Reference of the transaction. Its rows have the same one."),
        *PROVENANCE,
    ),
)
POSITIONS = Table(
    "positions",
    "One row for each position in the old workbooks that were imported, including workbooks that a "
    "later one replaced. A name that is not in the first book is shown as written. These rows are "
    "not part of any total, guard or control total, nor of the lake. See "
    "history.positions_with_imported.",
    key=("as_of_date", "sha256", "row_no"),
    schema="reference",
    columns=(
        day("as_of_date", "Day of the old book, which is before the first night."),
        ordinal("row_no", "Number of the row in the import, starting at 1."),
        text("portfolio_id", "The portfolio. NULL if the file does not state it.", nullable=True),
        text("venue_id", "The venue. NULL if the file does not state it.", nullable=True),
        text("account_name", "The account. NULL if the file does not state it.", nullable=True),
        text("asset_id", "The asset."),
        flag("is_custom_asset", "Whether the organisation defined the asset itself."),
        text("bucket", "Bucket and state. NULL if the file does not state them.", nullable=True),
        text("amount_text", "Exact amount in plain digits."),
        flag("is_known", "Whether the first book has all names of the row."),
        text("sheet", "Tab of the workbook, or file in the archive. Empty for a CSV file."),
        *PROVENANCE,
    ),
)
# The reference tables with a contract. All others have the columns of their files.
CONTRACTED: tuple[Table, ...] = (PRICES, THRESHOLDS, TRANSACTIONS, POSITIONS)

_TABLE_NAME = text(
    "table_name",
    "The reference table, which is the name of the file's folder. The name of an old book also has "
    "its day, for example positions/2025-12-31.",
)

FILES = ops_table(
    "reference_files",
    "One row for each file that was received in reference/, in the order of the files.",
    key=("table_name", "sha256"),
    columns=(
        _TABLE_NAME,
        FILE,
        SHA256,
        RECEIVED_AT,
        count("row_count", "Number of rows in the reference table."),
        count("reject_count", "Number of rejects: rows, or 1 if the file could not be read."),
        flag("is_present", "Whether the file is still in its folder."),
        text("accepted_by", "Who accepted an old book, otherwise NULL.", nullable=True),
        moment("accepted_at", "When an old book was accepted, UTC.", nullable=True),
        text("accepted_reason", "The reason of this person.", nullable=True),
        text("accepted_night", "First night at that time, as snapshot ID.", nullable=True),
    ),
)

REJECTS = ops_table(
    "reference_rejects",
    "One row for each row or file in reference/ that could not be used. Of each file, only the "
    "first 100 rejects are listed.",
    key=("table_name", "file", "sha256", "line"),
    columns=(
        _TABLE_NAME,
        FILE,
        text(
            "sha256",
            "SHA-256 of the file. NULL if the file itself was not read.",
            nullable=True,
        ),
        count("line", "Line of the row. NULL if the whole file was rejected.", nullable=True),
        text("code", "Kind of the problem, which never changes."),
        text("reason", "The problem, and the expected value."),
        text("value", "The invalid value. Empty if there is none."),
    ),
)

OWN_FINDINGS = ops_table(
    "own_findings",
    "One row for each finding of a person's own rules: the checks in checks/ and the thresholds in "
    "reference/thresholds/. The view findings shows the rows of the newest book. Each night keeps "
    "its last findings.",
    key=("snapshot_date", "finding_no"),
    columns=(
        SNAPSHOT_DATE,
        ordinal("finding_no", "Number of the finding on this date, starting at 1."),
        text(
            "kind",
            "own_check: a row of a check. own_check_failed: a check that could not be used or took "
            "too long. threshold_breached: an amount beyond a threshold. threshold_undecided: a "
            "threshold that could not be compared, for example because a price is missing. "
            "price_zero: a price in NIGHTBOOK_CURRENCY is 0.",
        ),
        text("name", "File of the check, or scope, name and measure of the threshold."),
        text("severity", "high, medium or low."),
        text("portfolio_id", "The portfolio. NULL if the finding names none.", nullable=True),
        text("venue_id", "The venue. NULL if the finding names none.", nullable=True),
        text("words", "The finding in one sentence."),
        flag("is_alert", "Whether the check or threshold asks for an alert."),
    ),
)

REFERENCED: tuple[Table, ...] = (FILES, REJECTS, OWN_FINDINGS)
