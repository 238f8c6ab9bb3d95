-- Three limits: for one asset, for each venue, and for each portfolio.
select *
from (
    values
        ('asset', 'BTC', 'quantity', '', '23150'),
        ('venue', '', 'share', '', '20'),
        ('portfolio', '', 'move', '-20', '20')
) as limits (scope, name, measure, minimum, maximum)
