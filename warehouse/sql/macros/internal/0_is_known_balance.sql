-- is_known_balance(bucket, state): Whether this part of a balance is documented (2.5).
--
-- bucket: As in `balances`.
-- state: As in `balances`.
-- returns: BOOLEAN.
-- example: select internal.is_known_balance('lending', 'free')

create or replace macro internal.is_known_balance(bucket, state) as (
    $known_balances
);
