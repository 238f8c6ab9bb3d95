"""Whether a text is a cron schedule: five fields, each within its bounds."""

RANGE = 2
DIGITS = 4
# The five cron fields: lowest and highest number, and the names that stand for numbers.
CRON = (
    (0, 59, ""),
    (0, 23, ""),
    (1, 31, ""),
    (1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    (0, 7, "sun mon tue wed thu fri sat"),
)


def is_schedule(text: str) -> bool:
    """Whether a text is five cron fields of numbers, names, ranges, lists and steps."""
    fields = text.lower().split()
    return len(fields) == len(CRON) and all(map(_is_cron, fields, CRON))


def _is_cron(field: str, kind: tuple[int, int, str]) -> bool:
    return all(_is_cron_part(part, *kind) for part in field.split(","))


def _is_cron_part(part: str, lowest: int, highest: int, names: str) -> bool:
    """Whether a part is `*`, a number or a range, perhaps with a step, within its bounds."""
    range_, has_step, step = part.partition("/")
    if has_step and not 1 <= (_small(step) or 0) <= highest:
        return False
    if range_ == "*":
        return True
    numbers = []
    for text in range_.split("-"):
        known = names.split().index(text) + lowest if text in names.split() else None
        number = known if known is not None else _small(text)
        if number is None or not lowest <= number <= highest:
            return False
        numbers.append(number)
    return len(numbers) == 1 or (len(numbers) == RANGE and numbers[0] <= numbers[1])


def _small(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None
