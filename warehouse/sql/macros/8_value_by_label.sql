-- value_by_label(label_name, quote, day): The value of each group of a label in the book of a day.
--
-- Each folder in reference/ with one of the key columns portfolio_id, venue_id, asset_id, is_custom_asset
-- and account_name, and with other columns, is a label, for example desks. If it has several other
-- columns, each of them is a label, for example desks.region. Labels are as of now, also for earlier
-- days. The macro fails if there is no such label.
--
-- label_name: The name of the label, such as 'desks', or 'portfolio' or 'venue'.
-- quote: The unit of the values, such as 'USD'.
-- day: Any date. The macro uses the newest book on or before this date. If there is no such book,
--     the macro fails with an error.
-- returns: A table: snapshot_date, group_name (NULL for amounts without this label), and the columns of
--     value_by_portfolio after the name. An asset can be part of several groups.
-- example: select group_name, value_text, assets, unpriced_assets from value_by_label('venue', 'USD', '9999-12-31') order by all

create or replace macro value_by_label(label_name, quote, day) as table
select * exclude (group_id)
from internal.value_groups(
    (
        select
            case
                when count(*) > 0 or label_name in ('portfolio', 'venue') then label_name
                else error('there is no label ' || label_name || ' in reference/')
            end
        from internal.labels as labels
        where labels.label = label_name
    ),
    quote,
    ($book_date),
    ($book_date)
);
