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

grouped as (
    select
        $key,
        case when internal.is_known_balance(bucket, state) then state else 'other' end as part,
        internal.exact_part(amount, amount_text) as sums
    from balances
    group by all
),

parts as (
    select
        $key,
        internal.exact_sums([
            internal.exact_part_of_parts(case when part = 'free' then sums end),
            internal.exact_part_of_parts(case when part = 'locked' then sums end),
            internal.exact_part_of_parts(case when part = 'other' then sums end),
            internal.exact_part_of_parts(sums)
        ]) as sums
    from grouped
    group by $key
)

select
    $key,
    case when sums[1].text is null then 0 else sums[1].amount end as free,
    coalesce(sums[1].text, '0') as free_text,
    case when sums[2].text is null then 0 else sums[2].amount end as locked,
    coalesce(sums[2].text, '0') as locked_text,
    case when sums[3].text is null then 0 else sums[3].amount end as other,
    coalesce(sums[3].text, '0') as other_text,
    case when sums[4].text is null then 0 else sums[4].amount end as total,
    coalesce(sums[4].text, '0') as total_text,
    $own
from listed
left join parts using ($key)
