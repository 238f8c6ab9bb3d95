select * from ops.gaps order by snapshot_date desc
