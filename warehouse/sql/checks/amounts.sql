-- Every amount is its text: the same value where DECIMAL(38,18) holds it, NULL where it does not.
--
-- severity: error
-- portfolio_id: Portfolio of the wrong amount.
-- asset_id: Its asset.
-- venue_id: Its venue.
-- account_name: Its account.
-- bucket: Its balance kind.
-- state: Its state.
-- amount: The amount as a number.
-- amount_text: The amount as text, which is the truth.
-- example: select amount, amount_text from balances where amount is distinct from internal.as_amount(amount_text)

select
    portfolio_id,
    asset_id,
    venue_id,
    account_name,
    bucket,
    state,
    amount,
    amount_text
from balances
where amount is distinct from internal.as_amount(amount_text)
    or (amount is null and internal.plain_digits(amount_text) is null)
