-- The fields of all breaks at a revision (?1), without the engine's entries for a day (?2).
select break_id, field, value, coalesce(episode, 1) as episode,
  coalesce(accepted, '') as accepted,
  coalesce(said_on, substr(at, 1, 10)) as "on", coalesce(said_by, who) as "by",
  coalesce(note, '') as note
from (
  select e.*, v.who, v.at, row_number() over (
    partition by e.break_id, e.field order by e.revision desc, e.entry_no desc) as nth
  from entries as e join revisions as v on v.no = e.revision
  where v.no <= ?1 and not e.is_restored and v.engine_day is not ?2
    and v.no not in (select revision from replacements where replaced_by <= ?1)
)
where nth = 1
