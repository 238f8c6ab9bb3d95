"""What the answers of a night said against their being whole, once for each sign.

A notice's `text` holds no value and starts with its place: it is the same every night, so that what
a person accepted once can be known by it. How many answers, and an example, stand beside it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipelines.edge.response.hints import describe
from pipelines.edge.response.wholeness import TruncationHint
from pipelines.landing.reasons import Reason, shape_of


@dataclass(frozen=True, slots=True)
class AnswerNotice:
    """One sign in the answers of one operation: where it stands, what it says, how often it came.

    `text` is how it is known in `Manifest.notices` and in decisions.
    """

    place: str
    words: str
    operation: str
    answers: int
    example: str

    @property
    def text(self) -> str:
        """The notice without its numbers."""
        return f"{self.place}: {self.words} ({self.operation})"


class NoticeCounter:
    """Counts the signs of a night's answers; the smallest example is kept, in any order."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._examples: dict[tuple[str, str, str], str] = {}

    def note(self, operation: str, hints: Iterable[TruncationHint]) -> None:
        """Note the signs of one answer."""
        for hint in hints:
            key = (hint.location, hint.code, operation)
            self._counts[key] += 1
            self._examples[key] = min(hint.example, self._examples.get(key, hint.example))

    def all(self) -> tuple[AnswerNotice, ...]:
        """Return every notice, in a fixed order."""
        return tuple(
            AnswerNotice(*key, count, self._examples[key])
            for key, count in sorted(self._counts.items())
        )


def reasons(texts: Iterable[str], signs: Iterable[AnswerNotice]) -> Iterator[Reason]:
    """Return why a night with these notices is held: one reason for each sign, not each answer.

    `signs` tell how many answers showed what; a text that none of them has (that of an older
    manifest) is told as it is.
    """
    unread = set(texts)
    same: dict[tuple[str, str], list[AnswerNotice]] = {}
    for notice in signs:
        if notice.text in unread:
            same.setdefault((notice.place, notice.words), []).append(notice)
    for (place, words), several in sorted(same.items()):
        unread -= {notice.text for notice in several}
        count = sum(notice.answers for notice in several)
        operations = ", ".join(sorted(notice.operation for notice in several))
        example = min(notice.example for notice in several)
        sentence = _sentence(count, f"{place}: {describe(words)} (in {operations}, like {example})")
        yield Reason(f"notice: {shape_of(f'{place}: {words}')}", sentence, is_teachable=True)
    for text in sorted(unread):
        yield Reason(f"notice: {shape_of(text)}", _sentence(1, text), is_teachable=True)


def _sentence(count: int, sign: str) -> str:
    look = "an answer looks" if count == 1 else f"{count} answers look"
    return f"{look} like one page of several, or not whole, which no document shows (4.6): {sign}"
