select * from ops.snapshots order by snapshot_id
