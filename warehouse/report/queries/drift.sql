select kind, word, path, first_seen, last_seen, seen, left(example, 200) as example
from ops.drift
order by first_seen desc, path, kind, word
