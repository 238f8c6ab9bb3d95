-- exact_long_sum(amount_text): The exact sum of amounts with many digits, as text: an aggregate.
--
-- Products have up to 36 decimals, for which exact_sum is slow. This macro adds up the integers, the first
-- 18 decimals and the next 18 decimals separately.
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
                        when strpos(amount_text || '.', '.') <= 29
                            and length(split_part(amount_text, '.', 2)) <= 36
                            then split_part(amount_text, '.', 1)::decimal(38, 0)
                    end
                )::varchar,
                sum(
                    case
                        when strpos(amount_text || '.', '.') <= 29
                            and length(split_part(amount_text, '.', 2)) between 1 and 36
                            then (
                                case when starts_with(amount_text, '-') then '-0.' else '0.' end
                                || left(split_part(amount_text, '.', 2), 18)
                            )::decimal(38, 18)
                    end
                )::varchar,
                sum(
                    case
                        when strpos(amount_text || '.', '.') <= 29
                            and length(split_part(amount_text, '.', 2)) between 19 and 36
                            then (
                                case when starts_with(amount_text, '-') then '-0.' else '0.' end
                                || substr(split_part(amount_text, '.', 2), 19)
                            )::decimal(38, 18)
                    end
                )::varchar || 'e-18'
            ],
            coalesce(
                list(amount_text) filter (
                    where strpos(amount_text || '.', '.') > 29
                        or length(split_part(amount_text, '.', 2)) > 36
                ),
                []
            )
        )
    )
);
