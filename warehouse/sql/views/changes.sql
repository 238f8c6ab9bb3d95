-- Changes since the previous book. One row for each amount that is new, gone or different.
--
-- Amounts are compared by value, so `1.0` equals `1.00`. If there is no previous book, all amounts
-- are new.
--
-- portfolio_id: ID of the portfolio that the account belongs to.
-- asset_id: ID of the account's asset.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- venue_id: ID of the venue that holds the account.
-- account_name: Name of the account at the venue.
-- duplicate_no: Number of the repetition, as in `accounts`.
-- bucket: A kind of balance, as in `balances`.
-- state: free, locked, or an undocumented state.
-- change: new (the API did not send the amount before), gone (the API does not send the amount any
--     more) or changed.
-- before: Amount in the previous book. NULL if the amount is new, or if DECIMAL(38,18) cannot hold
--     it exactly.
-- before_text: Amount in the previous book as exact text. NULL if the amount is new.
-- after: Amount in this book. NULL if the amount is gone, or if DECIMAL(38,18) cannot hold it
--     exactly.
-- after_text: Amount in this book as exact text. NULL if the amount is gone.
-- delta: Column `after` minus column `before`. A missing amount counts as 0. NULL if DECIMAL(38,18)
--     cannot hold the difference exactly.
-- delta_text: The amount in the column delta, as exact text.
-- portfolio_name: Display name of the portfolio. If the portfolio is gone, its last name. NULL if
--     the API does not send a name.
-- venue_name: Display name of the venue. NULL if the venue is not in the list of venues.
-- before_date: Business date of the previous book. NULL if there is no previous book or if it is
--     empty.
-- after_date: Business date of this book. NULL if this book is empty.
-- example: select change, asset_id, is_custom_asset, exact_sum(delta_text) as delta
--     from changes group by all

with pairs as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        bucket,
        state,
        old.amount as old_amount,
        old.amount_text as old_text,
        new.amount as new_amount,
        new.amount_text as new_text
    from balances_before as old
    full join balances as new using (
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        bucket,
        state
    )
    where case
        when old.amount is not null and new.amount is not null
            then old.amount <> new.amount
        else internal.plain_digits(old.amount_text) is distinct from internal.plain_digits(new.amount_text)
    end
),

sums as (
    select
        *,
        internal.exact_sums(
            [
                internal.exact_single(old_amount, old_text),
                internal.exact_single(new_amount, new_text),
                {
                    'whole': null::decimal(38, 0),
                    'rest': case
                        when abs(coalesce(old_amount, 0)) < 10000000000
                            and abs(coalesce(new_amount, 0)) < 10000000000
                            and (old_amount is not null or old_text is null)
                            and (new_amount is not null or new_text is null)
                            then coalesce(new_amount, 0) - coalesce(old_amount, 0)
                    end,
                    'texts': case
                        when not (
                            abs(coalesce(old_amount, 0)) < 10000000000
                            and abs(coalesce(new_amount, 0)) < 10000000000
                            and (old_amount is not null or old_text is null)
                            and (new_amount is not null or new_text is null)
                        )
                            then [
                                new_text,
                                case
                                    when starts_with(old_text, '-') then substr(old_text, 2)
                                    else '-' || ltrim(old_text, '+')
                                end
                            ]
                    end
                }
            ]
        ) as parts
    from pairs
)

select
    sums.portfolio_id,
    sums.asset_id,
    sums.is_custom_asset,
    sums.venue_id,
    sums.account_name,
    sums.duplicate_no,
    sums.bucket,
    sums.state,
    case
        when old_text is null then 'new'
        when new_text is null then 'gone'
        else 'changed'
    end as change,
    parts[1].amount as before,
    parts[1].text as before_text,
    parts[2].amount as after,
    parts[2].text as after_text,
    parts[3].amount as delta,
    parts[3].text as delta_text,
    coalesce(portfolios.name, portfolios_before.name) as portfolio_name,
    venues.display_name as venue_name,
    (select max(snapshot_date) from portfolios_before) as before_date,
    (select max(snapshot_date) from portfolios) as after_date
from sums
left join portfolios
    on portfolios.portfolio_id = sums.portfolio_id
left join portfolios_before
    on portfolios_before.portfolio_id = sums.portfolio_id
left join venues
    on venues.venue_id = sums.venue_id
