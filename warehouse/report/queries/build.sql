select * from ops.build
