-- The instruments of the last book that venues keep tonight, dated tonight.
select
    * replace (
        $day as snapshot_date,
        coalesce(stale_since, snapshot_date) as stale_since
    ),
    stale_since is null as is_new
from instruments
-- Without any of these, only the venue stated the instrument, with its type and name.
where coalesce(
        feed_id,
        venue_symbol,
        base_asset,
        term_asset,
        created_at::varchar,
        updated_at::varchar
    ) is not null
    -- A venue that failed keeps all its rows. A venue with an empty list loses the expired rows and
    -- after a week all of them.
    and (
        list_contains($failed, venue_id)
        or (
            list_contains($empty, venue_id)
            and coalesce(expiration > $started_at, true)
            and coalesce(stale_since >= $oldest, true)
        )
    )
