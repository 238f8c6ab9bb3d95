"""The exact difference of two amounts as a formula, though a spreadsheet keeps 15 digits."""

_PLACES, _WHOLE = 18, 15


def fixed_point(text: str | None) -> str:
    """Return an exact text with 18 decimals, as the difference formula takes it apart."""
    whole, _, part = (text or "0").partition(".")
    return f"{whole}.{part.ljust(_PLACES, '0')}"


def can_be_live(*texts: str) -> bool:
    """Return whether the difference formula is exact: 15 whole digits and 18 decimals."""
    return all(
        len(text.partition(".")[0].lstrip("-")) <= _WHOLE and len(text.partition(".")[2]) == _PLACES
        for text in texts
    )


def difference(ours: str, theirs: str) -> str:
    """Return the formula of the difference of two cells of fixed texts."""
    # A spreadsheet calculates with 15 digits, so each text is cut into the whole number and twice
    # nine decimals, which are subtracted apart. VALUE never sees a decimal point, which a program
    # in another language would read as a grouping letter.

    def whole(cell: str) -> str:
        return f"VALUE(LEFT({cell},LEN({cell})-19))"

    def sign(cell: str) -> str:
        return f'IF(LEFT({cell})="-",-1,1)'

    def middle(cell: str) -> str:
        return f"{sign(cell)}*VALUE(MID({cell},LEN({cell})-17,9))"

    def last(cell: str) -> str:
        return f"{sign(cell)}*VALUE(RIGHT({cell},9))"

    return (
        f"=((({whole(ours)}-{whole(theirs)})*1E9+{middle(ours)}-{middle(theirs)})*1E9"
        f"+{last(ours)}-{last(theirs)})/1E18"
    )
