-- digit_group(digits, number): A group of nine digits of a long number.
--
-- digits: Digits as text.
-- number: The number of the group. 0 is the last group.
-- returns: BIGINT.
-- example: select internal.digit_group('12345678901234567890', 1)

create or replace macro internal.digit_group(digits, number) as (
    right(left(digits, (length(digits) - 9 * number)::bigint), 9)::bigint
);
