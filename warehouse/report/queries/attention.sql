select severity, title, message, command from ops.attention
order by
    case severity when 'error' then 1 when 'warning' then 2 else 3 end,
    code,
    cause
