select check_name, severity, passed, wrong_rows, meaning, example
from ops.checks
order by passed, severity, check_name
