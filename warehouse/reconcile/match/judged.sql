-- All unequal pairs, and the first rule that applies to each of them. The braces are filled in by classify.py.
with unequal as (
    select pairs.*, ({pair_key}) in (select ({key}) from rejected_keys) as is_rejected,
        coalesce(sums.decimals, ledger_rows.decimals) as decimals,
        coalesce(sums.is_number, ledger_rows.is_number) as is_number,
        coalesce(sums.files, [ledger_rows.file]) as files,
        coalesce(sums.amounts, [ledger]) as amounts,
        coalesce(absolute, '{absolute}') as absolute, coalesce(whose, '') as whose,
        coalesce(
            regexp_replace(({ledger_number} - {snapshot_number})::varchar, '\.?0+$', ''),
            exact_subtract(coalesce(ledger, '0'), coalesce(snapshot, '0'))
        ) as difference
    from pairs
    left join ledger_sums as sums on sums.first = pairs.line
    left join ledger_rows on ledger_rows.line = pairs.line
    left join tolerances on tolerances.asset = pairs.asset
    where pairs.is_unmapped or ledger is distinct from snapshot or is_rejected
), keyed as (
    select *, ltrim(difference, '-') as size, case
        when is_rejected then 'Rejected'
        when is_unmapped then 'Unmapped'
        when snapshot is null and {is_undelivered} then 'Portfolio not delivered'
        when (ledger is null or snapshot is null) and difference = '0' then 'Matched (zero)'
        when ledger is null then 'Not in ledger'
        when snapshot is null then 'Not in snapshot'
    end as result_of_key
    from unequal
), weighed as (
    select keyed.*, wording, case
        when result_of_key is not null or wording is null then null
        when rows = 1 and {decimals} <= places and {is_within_half} then loss
        else nullif(allowance('kept', files, amounts, snapshot), '')
    end as kept_loss, case
        when result_of_key is null and {relative} > 0
            then allowance('relative', files, amounts, snapshot) else '0'
    end as relative_limit
    from keyed left join file_precisions on file_precisions.file = files[1]
), ruled as (
    select *, (case
        when result_of_key is not null then row('none', '', '0')
        when '{rounding}' <> 'off' and is_number
            and allowance('number cell', files, amounts, snapshot) <> ''
            then row('number cell', '{digits} digits of a number cell', '0')
        when '{rounding}' = 'written' and rows = 1 and not is_number and {is_within_written}
            then row('written', decimals || ' decimals written', size)
        when kept_loss is not null
            then row('kept', wording || ' kept by the ledger', kept_loss)
        when not {is_relative_lower}
            then row('tolerance', 'relative {relative}', relative_limit)
        when absolute = '0' then row('tolerance', 'none', '0')
        else row('tolerance', 'absolute ' || absolute || whose, absolute)
    end)::struct(kind varchar, wording varchar, allowed varchar) as rule
    from weighed
)
select no, asset, rule.kind, rule.wording as rule, difference, rule.allowed, false as is_over,
    coalesce(result_of_key, case
        when rule.kind <> 'tolerance' then 'Ledger precision'
        when {is_tolerated} then 'Within tolerance'
        else 'Amount differs'
    end) as result
from ruled
