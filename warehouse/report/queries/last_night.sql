select * from ops.snapshots
where snapshot_id = $last
