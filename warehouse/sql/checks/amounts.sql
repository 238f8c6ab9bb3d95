-- Each amount equals its text, or is NULL if DECIMAL(38,18) cannot hold it.
--
-- severity: error
-- portfolio_id: The portfolio of the wrong amount.
-- asset_id: Its asset.
-- venue_id: Its venue.
-- account_name: Its account.
-- bucket: Its balance kind.
-- state: Its state.
-- amount: The amount as a number.
-- amount_text: The exact amount, as text.
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
