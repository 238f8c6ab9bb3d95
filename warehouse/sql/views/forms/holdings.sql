-- Balances by a key, as free, locked and other amounts: one row for each row of a query.
--
-- Sums are exact. If a sum does not fit in DECIMAL(38,18), the number is NULL and the
-- ..._text column contains the sum.
--
-- free: Sum of the free amounts of all documented balance kinds. 0 if the API sends no such
--     amount.
-- free_text: The amount in the column free, as exact text.
-- locked: Sum of the locked amounts of all documented balance kinds. 0 if the API sends no such
--     amount.
-- locked_text: The amount in the column locked, as exact text.
-- other: Sum of the amounts whose balance kind is not in the API's documentation. 0 if there are
--     no such amounts.
-- other_text: The amount in the column other, as exact text.
-- total: Sum of free, locked and other.
-- total_text: The amount in the column total, as exact text.

with listed as (
    $query
),

split as (
    select
        $key,
        case when internal.is_known_balance(bucket, state) then state else 'other' end as part,
        internal.exact_split(amount, amount_text) as split
    from balances
),

parts as (
    select
        $key,
        sum(case when part = 'free' then split.small end) as free,
        sum(case when part = 'locked' then split.small end) as locked,
        sum(case when part = 'other' then split.small end) as other,
        sum(split.small) as total,
        list({'part': part, 'text': split.odd}) filter (where split.odd is not null) as texts
    from split
    group by $key
),

sums as (
    select
        *,
        -- The slow calculation, for the few that are not sums of small decimals.
        case
            when texts is not null
                then internal.exact_sums_by_part(
                    [
                        {'part': 'free', 'small': free},
                        {'part': 'locked', 'small': locked},
                        {'part': 'other', 'small': other},
                        {'part': null, 'small': total}
                    ],
                    texts
                )
        end as odd
    from parts
)

select
    $key,
    case when odd[1].text is null then coalesce(sums.free, 0) else odd[1].amount end as free,
    coalesce(odd[1].text, internal.decimal_text(coalesce(sums.free, 0))) as free_text,
    case when odd[2].text is null then coalesce(sums.locked, 0) else odd[2].amount end as locked,
    coalesce(odd[2].text, internal.decimal_text(coalesce(sums.locked, 0))) as locked_text,
    case when odd[3].text is null then coalesce(sums.other, 0) else odd[3].amount end as other,
    coalesce(odd[3].text, internal.decimal_text(coalesce(sums.other, 0))) as other_text,
    case when odd[4].text is null then coalesce(sums.total, 0) else odd[4].amount end as total,
    coalesce(odd[4].text, internal.decimal_text(coalesce(sums.total, 0))) as total_text,
    $own
from listed
left join sums using ($key)
