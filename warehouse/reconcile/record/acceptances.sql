-- The acceptances of a break (?1) at a revision (?2), without the engine's entries for a day (?3): the same difference was
-- accepted since anybody last set a different status.
with decisions as (
  select e.value, e.episode, e.accepted, coalesce(e.said_by, v.who) as who,
    row_number() over (order by e.revision desc, e.entry_no desc) as nth
  from entries as e join revisions as v on v.no = e.revision
  where e.break_id = ?1 and e.field = 'status' and v.no <= ?2 and not e.is_restored and v.engine_day is not ?3
    and v.no not in (select revision from replacements where replaced_by <= ?2)
)
select d.who from decisions as d join decisions as last on last.nth = 1
where last.value = 'Explained - accepted' and not exists (
  select 1 from decisions as other
  where other.nth <= d.nth and (other.value, other.episode, other.accepted) is not (last.value, last.episode, last.accepted)
)
