-- exact_long_sum(amount_text): The exact sum of amounts with many decimals, as text: an aggregate.
--
-- Products have up to 36 decimals, for which exact_sum is slow. This macro adds up the first 18 decimals
-- and the next 18 decimals separately.
--
-- amount_text: Amounts in plain digits. NULLs are skipped.
-- returns: Text in plain digits. NULL if there is no amount.
-- example: select internal.exact_long_sum(total_text) from holdings where asset_id = 'BTC'

create or replace macro internal.exact_long_sum(amount_text) as (
    internal.exact_total(
        list_concat(
            [
                sum(
                    case
                        when regexp_full_match(amount_text, '-?[0-9]{1,12}(\.[0-9]{1,36})?')
                            then left(amount_text, strpos(amount_text || '.', '.') + 18)::decimal(38, 18)
                    end
                )::varchar,
                sum(
                    case
                        when length(split_part(amount_text, '.', 2)) > 18
                            and regexp_full_match(amount_text, '-?[0-9]{1,12}(\.[0-9]{1,36})?')
                            then (
                                case when starts_with(amount_text, '-') then '-0.' else '0.' end
                                || substr(split_part(amount_text, '.', 2), 19)
                            )::decimal(38, 18)
                    end
                )::varchar || 'e-18'
            ],
            coalesce(
                list(amount_text) filter (
                    where not regexp_full_match(amount_text, '-?[0-9]{1,12}(\.[0-9]{1,36})?')
                ),
                []
            )
        )
    )
);
