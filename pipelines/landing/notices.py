"""Notices about signs that a night's responses are incomplete.

A notice's `text` starts with the location of the sign, and contains no values from the response. So
it is the same every night, and a lesson about the notice also applies to later nights. The number
of responses and an example are stored separately.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipelines.edge.response.freshness import MAX_AGE, OLD_CODES
from pipelines.edge.response.hints import describe
from pipelines.edge.response.wholeness import META, TruncationHint
from pipelines.landing.reasons import Reason, shape_of


@dataclass(frozen=True, slots=True)
class ResponseNotice:
    """A sign of incomplete responses to an operation: location, message, count and example.

    `text` identifies the notice in `Manifest.notices` and in decisions.
    """

    place: str
    words: str
    operation: str
    answers: int
    example: str

    @property
    def text(self) -> str:
        """The location, message and operation as text, without the count and the example."""
        return f"{self.place}: {self.words} ({self.operation})"


class NoticeCounter:
    """A counter for signs that a night's responses are incomplete.

    It stores the alphabetically first example, so the order of responses does not matter.
    """

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._examples: dict[tuple[str, str, str], str] = {}

    def note(self, operation: str, hints: Iterable[TruncationHint]) -> None:
        """Count the hints found in one response."""
        for hint in hints:
            key = (hint.location, hint.code, operation)
            self._counts[key] += 1
            self._examples[key] = min(hint.example, self._examples.get(key, hint.example))

    def all(self) -> tuple[ResponseNotice, ...]:
        """Return all notices in a fixed order."""
        return tuple(
            ResponseNotice(*key, count, self._examples[key])
            for key, count in sorted(self._counts.items())
        )


def reasons(texts: Iterable[str], signs: Iterable[ResponseNotice]) -> Iterator[Reason]:
    """Yield the reasons to hold a night because of these notices, one reason for each sign.

    `signs` contains the number of responses for each notice. If a text in `texts` has no sign, it
    comes from an older manifest, and is used unchanged.
    """
    unexplained = set(texts)
    notices_by_sign: dict[tuple[str, str], list[ResponseNotice]] = {}
    for notice in signs:
        if notice.text in unexplained:
            notices_by_sign.setdefault((notice.place, notice.words), []).append(notice)
    for (place, words), group in sorted(notices_by_sign.items()):
        unexplained -= {notice.text for notice in group}
        count = sum(notice.answers for notice in group)
        operations = ", ".join(sorted(notice.operation for notice in group))
        example = min(notice.example for notice in group)
        # A cache is a fault of the night. But a service may state every night how old its data is.
        is_teachable = words not in OLD_CODES or place.startswith(META)
        if words in OLD_CODES:
            sentence = _age_sentence(count, f"{place}: {example} (in {operations})")
        else:
            sign = f"{place}: {describe(words)} (in {operations}, like {example})"
            sentence = _sentence(count, sign)
        key = f"notice: {shape_of(f'{place}: {words}')}"
        yield Reason(key, sentence, is_teachable=is_teachable)
    for text in sorted(unexplained):
        yield Reason(f"notice: {shape_of(text)}", _sentence(1, text), is_teachable=True)


def _sentence(count: int, sign: str) -> str:
    """Describe a sign of incomplete responses, and the number of responses that show it."""
    look = "a response looks" if count == 1 else f"{count} responses look"
    return (
        f"{look} like one page of several, or incomplete, although the API document does not "
        f"mention pages or incomplete responses (4.6): {sign}"
    )


def _age_sentence(count: int, sign: str) -> str:
    """Describe a sign of old responses, and the number of responses that show it."""
    was = "a response was" if count == 1 else f"{count} responses were"
    return (
        f"{was} more than {MAX_AGE.seconds // 60} minutes old, although nothing on the way may "
        f"answer from a cache. The second request did not help: {sign}"
    )
