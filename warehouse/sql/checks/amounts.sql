-- Each amount is equal to its text, or NULL if DECIMAL(38,18) cannot hold the amount.
--
-- severity: error
-- portfolio_id: The portfolio of the wrong amount.
-- asset_id: The asset of the wrong amount.
-- venue_id: The venue of the wrong amount.
-- account_name: The account of the wrong amount.
-- bucket: The balance kind of the wrong amount.
-- state: The state of the wrong amount.
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
