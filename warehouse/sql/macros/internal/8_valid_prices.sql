-- valid_prices(quote_asset, first_day, last_day): The price of each asset in each book of a period.
--
-- quote_asset: The unit of the prices.
-- first_day: The date of the first book.
-- last_day: The date of the last book.
-- returns: A table as from prices_as_of.
-- example: select * from internal.valid_prices('USD', date '2026-11-01', date '2026-11-30') limit 10

create or replace macro internal.valid_prices(quote_asset, first_day, last_day) as table
with books as materialized (
    select
        snapshots.snapshot_date,
        -- All times are microseconds, because casts of dates depend on the client's time zone.
        epoch_us(coalesce(max(requests.received_at), any_value(snapshots.started_at))) as read_us
    from ops.snapshots as snapshots
    left join ops.requests as requests
        on requests.snapshot_id = snapshots.snapshot_id
        and requests.operation = 'list_portfolios'
        and requests.purpose = 'book'
    where snapshots.is_book
    group by snapshots.snapshot_date
),

-- A price with only a date has the time of that date's book. If that date has no book, the price has
-- the time at which the date ended in UTC, or at which the next book was read, if that was earlier.
dates as materialized (
    select
        days.as_of_date,
        case
            when books.snapshot_date = days.as_of_date then books.read_us
            else least(epoch_us((days.as_of_date + 1)::timestamp), books.read_us)
        end as price_us
    from (
        select distinct prices.as_of_date
        from reference.prices as prices
        where prices.as_of_date is not null
    ) as days
    asof left join books
        on books.snapshot_date >= days.as_of_date
),

-- The best source of each time, and then the later file. Of the same time, a stated price comes before
-- a quotient.
candidates as (
    select
        prices.asset_id,
        prices.is_custom_asset,
        coalesce(epoch_us(prices.as_of_time), dates.price_us) as price_us,
        arg_min(
            prices.rowid,
            internal.source_rank(
                (select settings.sources from internal.price_settings as settings),
                prices.source
            ) * 4503599627370496 - epoch_us(prices.received_at)
        ) as price_row,
        null::bigint as rate_row,
        2 * coalesce(epoch_us(prices.as_of_time), dates.price_us) + 1 as place
    from reference.prices as prices
    left join dates
        on dates.as_of_date = prices.as_of_date
    where prices.quote = quote_asset
    group by all
    union all
    select
        pairs.asset_id,
        pairs.is_custom_asset,
        coalesce(epoch_us(pairs.price_time), dates.price_us),
        pairs.price_row,
        pairs.rate_row,
        2 * coalesce(epoch_us(pairs.price_time), dates.price_us)
    from internal.cross_pairs(quote_asset) as pairs
    left join dates
        on dates.as_of_date = pairs.price_date
),

held as materialized (
    select
        assets.snapshot_date,
        assets.asset_id,
        assets.is_custom_asset,
        books.read_us
    from history.holdings_by_asset as assets
    inner join books
        on books.snapshot_date = assets.snapshot_date
    where assets.snapshot_date between first_day and last_day
),

chosen as (
    select
        held.*,
        candidates.price_us,
        candidates.price_row,
        candidates.rate_row
    from held
    asof left join candidates
        on candidates.asset_id = held.asset_id
        and candidates.is_custom_asset = held.is_custom_asset
        and candidates.place <= 2 * held.read_us + 1
),

aged as (
    select
        chosen.snapshot_date,
        chosen.asset_id,
        chosen.is_custom_asset,
        chosen.asset_id = quote_asset and not chosen.is_custom_asset as is_quote,
        case
            when prices.as_of_date is null then chosen.read_us - chosen.price_us
            else 86400000000 * (chosen.snapshot_date - prices.as_of_date)
        end as age_us,
        chosen.price_us,
        case when chosen.price_row = chosen.rate_row then '1' else prices.price_text end as price_text,
        rates.price_text as rate_text,
        rates.sha256 as rate_sha256,
        rates.line as rate_line,
        prices.as_of,
        prices.source,
        prices.level,
        prices.file,
        prices.sha256,
        prices.line,
        prices.received_at
    from chosen
    left join reference.prices as prices
        on prices.rowid = chosen.price_row
    left join reference.prices as rates
        on rates.rowid = chosen.rate_row
),

quoted as (
    select
        * exclude (price_text),
        case
            when is_quote then '1'
            when rate_sha256 is null then price_text
            else internal.quotient(price_text, rate_text)
        end as price_text,
        case
            when is_quote then 'quote'
            when rate_sha256 is not null then 'quotient'
            when price_text is not null then 'stated'
        end as price_kind
    from aged
)

select
    snapshot_date,
    asset_id,
    is_custom_asset,
    quote_asset as quote,
    price_text,
    case
        when is_quote then 'priced'
        when price_text is null then 'missing'
        when age_us > 86400000000
            * (select settings.max_age_days from internal.price_settings as settings)
            then 'stale'
        else 'priced'
    end as price_state,
    case when not is_quote then to_timestamp(price_us / 1000000.0) end as price_time,
    case when not is_quote then age_us // 86400000000 end as age_days,
    case when not is_quote then as_of end as as_of,
    case when not is_quote then source end as source,
    case when not is_quote then level end as level,
    case when not is_quote then file end as file,
    case when not is_quote then sha256 end as sha256,
    case when not is_quote then line end as line,
    case when not is_quote then received_at end as received_at,
    price_kind,
    case when not is_quote then rate_text end as rate_text,
    case when not is_quote then rate_sha256 end as rate_sha256,
    case when not is_quote then rate_line end as rate_line
from quoted;
